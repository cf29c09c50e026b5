//! Whatever batch and servers can be read are planned, and the plan and its proof are accepted by the checker.
//!
//! The input is a batch; or a limit on concurrency, a servers file and a batch, each ended by an empty line.
#![no_main]
use evenkeel::check::{self, Subject};
use evenkeel::model::{Client, Cluster, Server};
use evenkeel::order::colour::order;
use evenkeel::plan::{Options, Plan, plan};
use evenkeel::policy::POLICIES;
use evenkeel::select::{Goal, optimal};
use evenkeel_formats::{Declared, Input, Reading, read_batch_csv, read_servers};

fn read(bytes: &[u8]) -> Option<Input> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut sections = text.splitn(3, "\n\n");
    let (limit, servers, batch) = match (sections.next()?, sections.next(), sections.next()) {
        (limit, Some(servers), Some(batch)) => (limit.parse().ok(), Some(servers), batch),
        _ => (None, None, text),
    };
    let servers = servers.map(|text| read_servers(text.as_bytes(), &Reading::of("servers"))).transpose().ok()?;
    let names = servers.as_ref().map(|servers| servers.names.clone());
    let declared = Declared { servers: names, ..Declared::default() };
    let batch = read_batch_csv(batch.as_bytes(), &Reading::of("batch"), declared).ok()?;
    let servers = servers.map_or_else(|| vec![Server::default(); batch.n_servers()], |servers| servers.nodes);
    let clients = vec![Client::default(); batch.n_clients()];
    let cluster = Cluster::new(&batch, servers, clients, limit).ok()?;
    Some(Input { batch, cluster })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(Input { batch, cluster }) = read(bytes) else { return };
    for (goal, subject) in
        [(Goal::Length, Subject::Length), (Goal::MaxLoad, Subject::MaxLoad), (Goal::Mean, Subject::MaxLoad)]
    {
        let (choice, bound) = optimal::select(&batch, &cluster, goal);
        check::bound(&batch, &cluster, &bound, subject).expect("a proof that holds");
        let schedule = order(&batch, &cluster, &choice);
        let measures = check::plan(&batch, &cluster, &schedule.transfers, true).expect("a valid plan");
        match goal {
            Goal::MaxLoad => assert_eq!(measures.max_load, bound.value),
            Goal::Mean => assert!(measures.max_load >= bound.value),
            // Slots that share very many blocks are rounded up.
            Goal::Length if cluster.is_even() => assert!(schedule.length.over(bound.value) < 1.0 + 1e-9),
            Goal::Length => assert!(schedule.length >= bound.value),
        }
    }
    evenkeel::explain::explain(&batch, &cluster, Goal::Length);
    for policy in POLICIES.iter().filter(|policy| policy.plans()) {
        let options = Options { policy, ..Options::default() };
        let Plan { choice, ordered, .. } = plan(&batch, &cluster, &options).expect("a plan with its proof");
        let measures =
            check::plan(&batch, &cluster, &ordered.schedule.transfers, true).expect("a valid plan");
        assert_eq!(measures.max_load, choice.last_done(&batch, &cluster), "{}", policy.name);
    }
});
