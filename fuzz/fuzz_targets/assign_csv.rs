//! Tasks and processes, one file behind the other with a line of `=` between them, and every assignment of what can be read.
#![no_main]
use evenkeel::policy::assignments;
use evenkeel_formats::{Reading, read_work};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(3).position(|window| window == b"\n=\n").unwrap_or(bytes.len());
    let (tasks, processes) = (&bytes[..at], bytes.get(at + 3..).unwrap_or(b"process,server\np,s0\n"));
    if let Ok(input) = read_work((tasks, &Reading::of("tasks")), (processes, &Reading::of("processes"))) {
        for (_, assign) in assignments() {
            if let Ok(found) = assign(&input.work) {
                let measures = found.measures(&input.work);
                assert!(measures.local_bytes <= found.bound_local_bytes);
                assert_eq!(measures.local_bytes + measures.remote_bytes, input.work.total_bytes());
            }
        }
    }
});
