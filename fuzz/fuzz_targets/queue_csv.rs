//! The queues of collective I/O, and every order of what can be read.
#![no_main]
use evenkeel::policy::queues;
use evenkeel::queue::Options;
use evenkeel_formats::{Reading, read_queue};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(input) = read_queue(bytes, &Reading::of("fuzz")) {
        for (_, policy) in queues() {
            let options = Options::default();
            let orders = (policy.order)(&input.collective, &options);
            input.collective.completions(&orders, options.model);
        }
    }
});
