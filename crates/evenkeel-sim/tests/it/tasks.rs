//! Tasks near their data: small cases by hand, and what paper 003 finds.

use evenkeel::policy::assignments;
use evenkeel_sim::case::Case;
use evenkeel_sim::hardware::Hardware;
use evenkeel_sim::outcome::Outcome;
use evenkeel_sim::refused::Refused;
use evenkeel_sim::tasks::{Sources, Tasks};
use evenkeel_sim::units::{Bytes, Span};
use proptest::prelude::*;

use crate::support::{hardware, policy};

fn run(tasks: &Tasks, hardware: &Hardware, name: &str, seed: u64) -> Outcome {
    tasks.run(&Case::new(hardware, policy(name), seed)).expect("good tasks")
}

/// Two tasks of ten bytes on a server that takes five nanoseconds for each request; a message takes three.
fn two_tasks() -> (Tasks, Hardware) {
    let mut hardware = hardware(1, 1);
    (hardware.message_ns, hardware.dispatch_ns, hardware.servers[0].latency_ns) = (3, 2, 5);
    let tasks =
        Tasks { tasks: Some(2), inputs: vec![Bytes(10)], copies: 1, compute: Span(7), ..Tasks::default() };
    (tasks, hardware)
}

#[test]
fn a_local_process_needs_no_message() {
    let (tasks, hardware) = two_tasks();
    let tasks = Tasks { processes: Some(1), ..tasks };
    let outcome = run(&tasks, &hardware, "rank", 0);
    assert_eq!((outcome.makespan_ns, &outcome.responses_ns[..]), (44, &[15, 15][..]));
    assert_eq!((outcome.local_bytes, outcome.remote_bytes, outcome.n_messages), (20, 0, 0));
    assert_eq!((outcome.bytes_of_servers, outcome.busy_ns_of_servers), (vec![20], vec![30]));
    // Pieces of 4, 4 and 2 bytes.
    let outcome = run(&Tasks { buffer: Some(Bytes(4)), ..tasks }, &hardware, "opass-single", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (64, vec![25, 25]));
}

#[test]
fn a_remote_process_sends_a_message_for_each_piece() {
    let (tasks, hardware) = two_tasks();
    let outcome = run(&tasks, &hardware, "rank", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (50, vec![18, 18]));
    assert_eq!((outcome.local_bytes, outcome.remote_bytes, outcome.n_messages), (0, 20, 2));
    let outcome = run(&Tasks { buffer: Some(Bytes(4)), ..tasks }, &hardware, "rank", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns, outcome.n_messages), (82, vec![34, 34], 6));
}

/// To the master and back, with its decision: 3 + 2 + 3.
#[test]
fn who_asks_for_tasks_waits_for_the_answer() {
    let (tasks, hardware) = two_tasks();
    let tasks = Tasks { processes: Some(1), ..tasks };
    let outcome = run(&tasks, &hardware, "opass-dynamic", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns), (2 * (8 + 15 + 7), vec![15, 15]));
    assert_eq!(outcome.n_messages, 6, "three questions, two tasks, and leave");
}

#[test]
fn processes_wait_for_each_other_at_a_server() {
    let hardware = hardware(1, 3);
    let tasks = Tasks { tasks: Some(3), inputs: vec![Bytes(10), Bytes(1)], copies: 1, ..Tasks::default() };
    let outcome = run(&tasks, &hardware, "rank", 0);
    // The long ones end at 10, 20 and 30. The first short one is asked for at 10, behind them: at 31; the others end at 32
    // and 33.
    assert_eq!(outcome.responses_ns, [3, 10, 12, 20, 21, 30]);
    assert_eq!(outcome.makespan_ns, 33);
}

/// Servers of which one is half as fast; everything is everywhere, three tasks of ten nanoseconds for each.
#[test]
fn the_fast_help_the_slow() {
    let mut hardware = hardware(2, 0);
    hardware.servers[1].speeds = vec![(0, 0.5)];
    let tasks = Tasks {
        processes: Some(2),
        tasks_per_process: 3,
        inputs: vec![Bytes(10)],
        copies: 2,
        ..Tasks::default()
    };
    assert_eq!(run(&tasks, &hardware, "opass-single", 0).makespan_ns, 60);
    let outcome = run(&tasks, &hardware, "opass-dynamic", 0);
    assert_eq!((outcome.makespan_ns, outcome.bytes_of_servers), (40, vec![40, 20]));
}

/// The second server needs 1000 ns for its task. The lease of that ends at 50, and the first process, idle since 10, does it
/// by 60; its piece is read to the end all the same, and does not count.
#[test]
fn the_task_of_a_silent_process_is_done_by_another() {
    let mut hardware = hardware(2, 0);
    hardware.servers[1].speeds = vec![(0, 0.01)];
    let tasks = Tasks {
        processes: Some(2),
        tasks_per_process: 1,
        inputs: vec![Bytes(10)],
        copies: 2,
        ..Tasks::default()
    };
    assert_eq!(run(&tasks, &hardware, "opass-dynamic", 0).makespan_ns, 1000);
    let leased = Tasks { lease: Some(Span(50)), ..tasks.clone() };
    let outcome = run(&leased, &hardware, "opass-dynamic", 0);
    assert_eq!((outcome.makespan_ns, outcome.responses_ns, outcome.n_failed), (60, vec![10, 10], 0));
    assert_eq!(outcome.bytes_of_servers, [20, 10]);
    assert_eq!(outcome.findings.none(), Ok(()));
    // In pieces of a byte it is heard of every 100 ns: it keeps its task, if that is often enough.
    let in_pieces = |lease| Tasks { buffer: Some(Bytes(1)), lease: Some(Span(lease)), ..tasks.clone() };
    assert_eq!(run(&in_pieces(150), &hardware, "opass-dynamic", 0).makespan_ns, 1000);
    // Here it is told at 60 to stop, and does so after its first piece, of which there are ten elsewhere.
    let outcome = run(&in_pieces(50), &hardware, "opass-dynamic", 0);
    assert_eq!((outcome.makespan_ns, outcome.bytes_of_servers), (60, vec![20, 1]));
}

/// Where no lease expires, only the messages that renew leases are added.
#[test]
fn leases_that_do_not_expire_change_nothing() {
    let mut hardware = hardware(4, 0);
    hardware.message_ns = 7;
    hardware.servers[2].speeds = vec![(0, 0.3)];
    for seed in 0..20 {
        let tasks = Tasks {
            processes: Some(5),
            inputs: vec![Bytes(10), Bytes(25)],
            buffer: Some(Bytes(4)),
            compute: Span(9),
            irregular: true,
            ..Tasks::default()
        };
        let without = run(&tasks, &hardware, "opass-dynamic", seed);
        let leased = Tasks { lease: Some(Span(1_000_000)), ..tasks };
        let with = run(&leased, &hardware, "opass-dynamic", seed);
        assert!(with.n_messages > without.n_messages);
        let with = Outcome { n_messages: without.n_messages, n_events: without.n_events, ..with };
        assert_eq!(with, without);
    }
}

/// Both servers go down while the chunk is read, whichever it is read from; the first is back at 20.
#[test]
fn what_is_lost_is_read_again() {
    let mut hardware = hardware(2, 1);
    hardware.servers[0].outages = vec![(5, 20)];
    hardware.servers[1].outages = vec![(5, 30)];
    let tasks = Tasks { tasks: Some(1), inputs: vec![Bytes(10)], copies: 2, ..Tasks::default() };
    let outcome = run(&tasks, &hardware, "opass-single", 0);
    assert_eq!((outcome.responses_ns, outcome.remote_bytes, outcome.n_failed), (vec![30], 10, 0));
    hardware.servers.iter_mut().for_each(|server| server.outages = vec![(5, u64::MAX)]);
    let outcome = run(&tasks, &hardware, "opass-dynamic", 0);
    assert_eq!((outcome.responses_ns.len(), outcome.n_failed), (0, 1));
}

#[test]
fn what_is_refused() {
    let hardware = hardware(2, 2);
    let refused =
        |tasks: Tasks, name| tasks.run(&Case::new(&hardware, policy(name), 0)).expect_err("refused");
    let good = Tasks { copies: 1, ..Tasks::default() };
    let other = refused(good.clone(), "mlml").to_string();
    assert!(other.contains("`mlml`") && other.contains("rank, opass-single, opass-multi"), "{other}");
    assert!(matches!(refused(Tasks::default(), "rank"), Refused::Copies { copies: 3, n_servers: 2 }));
    assert!(matches!(
        refused(Tasks { buffer: Some(Bytes(0)), ..good.clone() }, "rank"),
        Refused::Setting { name: "buffer", .. }
    ));
    assert!(matches!(
        refused(Tasks { inputs: Vec::new(), ..good.clone() }, "rank"),
        Refused::Setting { name: "inputs", .. }
    ));
    let nobody = Tasks { processes: Some(0), ..good.clone() };
    assert!(matches!(refused(nobody, "rank"), Refused::Work(_)));
    let no_clients = good.run(&Case::new(&crate::support::hardware(2, 0), policy("rank"), 0));
    assert!(matches!(no_clients, Err(Refused::NoClients)));
    let several = Tasks { inputs: vec![Bytes(1); 2], ..good };
    assert!(matches!(refused(several, "opass-single"), Refused::Unfit(_)));
}

#[test]
fn as_people_write_it() {
    let text = "processes = 64\ninputs = [\"30MB\", \"20MB\"]\nbuffer = \"64KiB\"\nsources = \"drawn\"";
    let tasks: Tasks = toml::from_str(text).expect("good settings");
    let wanted = Tasks {
        processes: Some(64),
        inputs: vec![Bytes(30_000_000), Bytes(20_000_000)],
        buffer: Some(Bytes(65_536)),
        sources: Some(Sources::Drawn),
        ..Tasks::default()
    };
    assert_eq!(tasks, wanted);
    assert!(toml::from_str::<Tasks>("chunks = 3").is_err());
}

/// Paper 003 §5.1.1, Figures 7 and 8: 64 processes and servers, 640 chunks of 64 MB. Without Opass hardly anything is
/// local, and the slowest reads take several times as long.
#[test]
fn opass_reads_near_and_so_quicker() {
    const MEGABYTE: u64 = 1_000_000;
    let mut hardware = hardware(64, 0);
    hardware.servers.iter_mut().for_each(|server| server.rate = 0.1);
    let tasks = Tasks { processes: Some(64), inputs: vec![Bytes(64 * MEGABYTE)], ..Tasks::default() };
    for seed in 0..4 {
        let (rank, opass) =
            (run(&tasks, &hardware, "rank", seed), run(&tasks, &hardware, "opass-single", seed));
        let share = |outcome: &Outcome| outcome.local_bytes as f64 / (640 * 64 * MEGABYTE) as f64;
        assert!(share(&rank) < 0.1 && share(&opass) > 0.95, "{} {}", share(&rank), share(&opass));
        assert!(rank.mean_response_ns() > 1.5 * opass.mean_response_ns());
        assert!(rank.response_ns(1000) > 2 * opass.response_ns(1000));
        assert!(rank.makespan_ns > opass.makespan_ns);
        let most = |outcome: &Outcome| outcome.bytes_of_servers.iter().copied().max();
        assert!(most(&rank) > most(&opass));
    }
}

/// The same, §5.1.3 and Figure 12, where processes ask a master: guided by where the data are, or by their ranks.
#[test]
fn opass_guides_those_who_ask() {
    let mut hardware = hardware(64, 0);
    hardware.message_ns = 100_000;
    hardware.servers.iter_mut().for_each(|server| server.rate = 0.1);
    let tasks = Tasks { processes: Some(64), dynamic: true, ..Tasks::default() };
    for seed in 0..4 {
        let (rank, opass) =
            (run(&tasks, &hardware, "rank", seed), run(&tasks, &hardware, "opass-dynamic", seed));
        assert!(opass.local_bytes > 5 * rank.local_bytes);
        assert!(rank.mean_response_ns() > 1.5 * opass.mean_response_ns());
        let n_asked = 2 * (640 + 64);
        let n_remote = opass.remote_bytes / (64 << 20);
        assert_eq!(opass.n_messages, n_asked + n_remote, "both ways, for each task and to leave");
    }
}

/// Where tasks take different times, who asks for each is done earlier than who has a list.
#[test]
fn asking_helps_where_tasks_differ() {
    let hardware = hardware(16, 0);
    let compute = Span(100_000);
    let tasks = Tasks {
        processes: Some(16),
        inputs: vec![Bytes(1_000)],
        compute,
        irregular: true,
        ..Tasks::default()
    };
    for seed in 0..4 {
        let of = |name| run(&tasks, &hardware, name, seed).makespan_ns;
        assert!(of("opass-dynamic") * 10 < of("opass-single") * 9, "{seed}");
    }
}

proptest! {
    /// Every input is read once, bytes are where the assignment says, and the same seed gives the same.
    #[test]
    fn all_is_read_once(
        n_servers in 1..6_u32,
        (n_processes, n_tasks, copies) in (1..9_u32, 0..30_u32, 1..4_u32),
        inputs in proptest::collection::vec(0..50_u64, 1..4),
        buffer in proptest::option::of(1..20_u64),
        (compute, irregular, dynamic) in (0..30_u64, any::<bool>(), any::<bool>()),
        is_drawn in proptest::option::of(any::<bool>()),
        (message_ns, seed) in (0..5_u64, 0..100_u64),
    ) {
        let mut hardware = hardware(n_servers, 0);
        hardware.message_ns = message_ns;
        let tasks = Tasks {
            processes: Some(n_processes),
            tasks: Some(n_tasks),
            inputs: inputs.iter().copied().map(Bytes).collect(),
            copies: copies.min(n_servers),
            buffer: buffer.map(Bytes),
            compute: Span(compute),
            irregular,
            dynamic,
            sources: is_drawn.map(|is_drawn| if is_drawn { Sources::Drawn } else { Sources::Balanced }),
            ..Tasks::default()
        };
        let work = tasks.work(&hardware, seed).expect("good tasks");
        for (policy, assign) in assignments() {
            let Ok(assignment) = assign(&work) else {
                prop_assert!(matches!(tasks.run(&Case::new(&hardware, policy, seed)), Err(Refused::Unfit(_))));
                continue;
            };
            let case = Case { keep_timeline: true, ..Case::new(&hardware, policy, seed) };
            let outcome = tasks.run(&case).expect("good tasks");
            prop_assert_eq!(outcome.responses_ns.len(), work.n_inputs());
            prop_assert_eq!(outcome.n_failed, 0);
            prop_assert_eq!(outcome.local_bytes + outcome.remote_bytes, work.total_bytes());
            prop_assert_eq!(outcome.bytes_of_servers.iter().sum::<u64>(), work.total_bytes());
            if policy.name != "opass-dynamic" && !dynamic {
                prop_assert_eq!(outcome.local_bytes, assignment.measures(&work).local_bytes);
            }
            prop_assert_eq!(tasks.run(&case).expect("good tasks"), outcome);
        }
    }
}

/// Two processes read two pieces of five bytes each from one server: if it turns between them, three times 100.
#[test]
fn a_disk_that_turns_takes_its_time() {
    let hardware = hardware(1, 2);
    let tasks = Tasks {
        tasks: Some(2),
        inputs: vec![Bytes(10)],
        copies: 1,
        buffer: Some(Bytes(5)),
        seek: Span(100),
        ..Tasks::default()
    };
    let outcome = run(&tasks, &hardware, "rank", 0);
    // In turn: 5, 100 + 5, 100 + 5, 100 + 5.
    assert_eq!((outcome.responses_ns, outcome.done_ns_of_clients), (vec![215, 320], vec![215, 320]));
    let alone = run(&Tasks { tasks: Some(1), ..tasks }, &hardware, "rank", 0);
    assert_eq!((alone.makespan_ns, alone.done_ns_of_clients), (10, vec![0, 10]), "nobody to turn to");
}

/// What a policy would do is the same when somebody else carries it out.
#[test]
fn an_assignment_from_elsewhere() {
    let hardware = hardware(8, 0);
    let tasks =
        Tasks { processes: Some(8), tasks_per_process: 3, inputs: vec![Bytes(7)], ..Tasks::default() };
    for name in ["opass-single", "opass-multi"] {
        let work = tasks.work(&hardware, 3).expect("good work");
        let (_, assign) = assignments().find(|(policy, _)| policy.name == name).expect("it is there");
        let carried_out = tasks.carry_out(&hardware, &work, assign(&work).expect("one input"), 3);
        assert_eq!(carried_out, run(&tasks, &hardware, name, 3));
    }
}
