//! Redirects. What is read is written as it was.
#![no_main]
use evenkeel_store::cluster::Redirect;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(redirect) = Redirect::parse(bytes) {
        assert_eq!(Redirect::parse(&redirect.to_json()).as_ref(), Ok(&redirect));
        assert_eq!(Redirect::new(redirect.etag.clone(), redirect.pieces.clone()), redirect);
    }
});
