//! Writes, and every place of what can be read.
#![no_main]
use evenkeel::draw::Seeded;
use evenkeel::observe::{Forget, HeatMap, ServerLog, Unit};
use evenkeel::place::{Options, Placer, Servers};
use evenkeel::policy::placing;
use evenkeel_formats::{Reading, read_writes};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(input) = read_writes(bytes, &Reading::of("fuzz"), 5) {
        for (_, policy) in placing() {
            let log = ServerLog::new([9, 0, 3, 3, 1], Unit::default(), Forget::default());
            let servers = Servers { log, heat: HeatMap::unknown(5, true) };
            let options = Options { n_replicas: 2, ..Options::default() };
            let mut placer = Placer::new(policy, options, servers).expect("valid");
            placer.windows(&input.writes, 3, &mut Seeded::new(0)).expect("valid");
        }
    }
});
