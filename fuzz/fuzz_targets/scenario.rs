//! Scenarios, and the cluster of what can be read.
#![no_main]
use evenkeel_sim::scenario::{NoFiles, Scenario};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::read(text, &[], &NoFiles)
        && scenario.servers().len() < 1000
        && scenario.n_clients() < 1000
    {
        let hardware = scenario.hardware(0);
        assert!(hardware.servers.iter().all(|server| server.rate > 0.0 && server.slots > 0));
        assert!(
            hardware.servers.iter().all(|server| server.speeds.is_sorted_by_key(|&(from_ns, _)| from_ns))
        );
        assert!(
            hardware
                .servers
                .iter()
                .all(|server| server.outages.iter().all(|(from_ns, until_ns)| from_ns < until_ns))
        );
    }
});
