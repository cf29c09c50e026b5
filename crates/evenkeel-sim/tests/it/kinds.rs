//! Workloads as a scenario names them, by kind.

use evenkeel_sim::jobs::Jobs;
use evenkeel_sim::tasks::Tasks;
use evenkeel_sim::units::Bytes;
use evenkeel_sim::writes::{Backlog, Range, Sizes, Writes};
use serde::Deserialize;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Workload {
    Tasks(Tasks),
    Writes(Writes),
    Jobs(Jobs),
}

fn read(text: &str) -> Result<Workload, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn a_kind_and_its_settings() {
    assert_eq!(read("kind = \"tasks\""), Ok(Workload::Tasks(Tasks::default())));
    assert_eq!(read("kind = \"jobs\"\njobs = 3"), Ok(Workload::Jobs(Jobs { jobs: 3, ..Jobs::default() })));
    let text = "kind = \"writes\"\nsizes = { from = \"1kB\", to = 2000 }\n[backlog]\ntimes = 4";
    let sizes = Sizes::Between(Range { from: Bytes(1_000), to: Bytes(2_000) });
    let backlog = Some(Backlog { times: 4.0, ..Backlog::default() });
    assert_eq!(read(text), Ok(Workload::Writes(Writes { sizes, backlog, ..Writes::default() })));
    for kind in ["tasks", "writes", "jobs"] {
        let error = read(&format!("kind = \"{kind}\"\nchunk = 1")).expect_err("refused").to_string();
        assert!(error.contains("unknown field `chunk`"), "{error}");
    }
}
