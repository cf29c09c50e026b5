//! Who leads in Kafka: files of its own tools, brokers that answer nonsense, and a real cluster.
//!
//! `EVENKEEL_TEST_KAFKA` names a broker of a cluster whose leaders the test may change, such as `10.77.0.11:9092`.
//! `cargo xtask cluster selftest kafka` does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_node::lead::kafka::{Files, Kafka, Login, Options, Weigh};
use evenkeel_node::lead::{Change, Engine, Group, Look};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::noise;

const TOPICS: &str = "\
Topic: orders\tTopicId: ou1BUi-TR7qVo6U2mb8Lvg\tPartitionCount: 4\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 2\tReplicas: 2,3,10\tIsr: 2,3,10\tElr: \tLastKnownElr: 
\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 3,10,2\tIsr: \tElr: \tLastKnownElr: 
\tTopic: orders\tPartition: 2\tLeader: 10\tReplicas: 2,10,3\tIsr: 10,3\tElr: \tLastKnownElr: 
\tTopic: orders\tPartition: 3\tLeader: 2\tReplicas: 2,3,10\tIsr: 2,3,10\tAdding Replicas: 10\tRemoving Replicas: 
Topic:a-b.c_d\tPartitionCount:1\tReplicationFactor:1\tConfigs:
\tTopic: a-b.c_d\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3
Topic: __consumer_offsets\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: 
\tTopic: __consumer_offsets\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3
";

const LOG_DIRS: &str = r#"Querying brokers for log directories information
Received log directory information from brokers 2,3
{"brokers":[{"broker":2,"logDirs":[{"partitions":[{"partition":"orders-0","size":700,"offsetLag":0,"isFuture":false},{"partition":"orders-0","size":9,"offsetLag":0,"isFuture":true},{"partition":"orders-1","size":5,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]},{"broker":3,"logDirs":[{"partitions":[{"partition":"orders-0","size":1,"offsetLag":3,"isFuture":false},{"partition":"a-b.c_d-0","size":30,"offsetLag":0,"isFuture":false},{"partition":"orders-1","size":6,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]}],"version":1}
"#;

/// Files in a folder that lasts as long as this.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

async fn look(topics: &str, log_dirs: Option<&str>, options: Options) -> Result<Look, String> {
    let folder = Folder::new();
    let log_dirs = log_dirs.map(|text| folder.file("log-dirs.txt", text));
    let files = Files { topics: folder.file("topics.txt", topics), log_dirs };
    let looked = async { Kafka::from_files(files, options)?.look().await };
    looked.await.map_err(|error| error.0.replace(&format!("{}/", folder.0.path().display()), ""))
}

fn by_bytes() -> Options {
    Options { weigh: Weigh::Bytes, ..Options::default() }
}

#[tokio::test]
async fn output_of_the_tools() {
    let look = look(TOPICS, Some(LOG_DIRS), by_bytes()).await.unwrap();
    let servers: Vec<&str> = look.servers.iter().map(|server| server.name.as_str()).collect();
    // By number and not by letter.
    assert_eq!(servers, ["2", "3", "10"]);
    let group = |name: &str, pool: &str, weight, members: &[u32], leader, eligible: &[u32]| Group {
        name: name.to_owned(),
        pool: pool.to_owned(),
        weight,
        members: members.to_vec(),
        leader,
        eligible: eligible.to_vec(),
    };
    assert_eq!(
        look.groups,
        [
            group("a-b.c_d-0", "a-b.c_d", 30, &[1], Some(1), &[1]),
            group("orders-0", "orders", 700, &[0, 1, 2], Some(0), &[0, 1, 2]),
            // Nobody leads it, so the largest replica counts.
            group("orders-1", "orders", 6, &[1, 2, 0], None, &[]),
            group("orders-2", "orders", 0, &[0, 2, 1], Some(2), &[2, 1]),
            group("orders-3", "orders", 0, &[0, 1, 2], Some(0), &[]),
        ]
    );
    assert_eq!(
        look.left_alone,
        [
            "topic __consumer_offsets: 1 partition is internal to Kafka",
            "1 partition (orders-3) gets other replicas now",
            "1 partition (orders-1) has no leader",
        ]
    );
    assert_eq!(look.refusals.len(), 2, "{:?}", look.refusals);
    assert!(look.refusals[0].contains("a reassignment runs"), "{:?}", look.refusals);
    assert!(look.refusals[1].contains("files cannot be changed"), "{:?}", look.refusals);
    assert!(
        look.remarks[0].starts_with("2 partitions (orders-2, orders-3) weigh nothing"),
        "{:?}",
        look.remarks
    );
    assert!(look.remarks[1].contains("(orders-2) is not led by the first"), "{:?}", look.remarks);
}

#[tokio::test]
async fn chosen_topics_and_rates() {
    let folder = Folder::new();
    for rates in [
        "topic,partition,rate\norders,0,12.6\norders,2,0.01\n",
        "\"bytes_per_second\",\"partition\"\n12.6,\"orders-0\"\n\n0.01,orders-2\n",
    ] {
        let options = Options {
            topics: vec!["orders".to_owned()],
            weigh: Weigh::Rates(folder.file("rates.csv", rates)),
            ..Options::default()
        };
        let look = look(TOPICS, None, options).await.unwrap();
        let weights: Vec<u64> = look.groups.iter().map(|group| group.weight).collect();
        assert_eq!(weights, [13, 0, 1, 0]);
    }
    let internal = Options { internal: true, ..Options::default() };
    assert_eq!(look(TOPICS, None, internal).await.unwrap().groups.len(), 6);
    let missing = Options { topics: vec!["order".to_owned()], ..Options::default() };
    let error = look(TOPICS, None, missing).await.unwrap_err();
    assert_eq!(error, "no topic is called `order`; name one of those that the cluster has");
}

#[tokio::test]
async fn errors_name_file_line_and_remedy() {
    let line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n";
    let remedy = "give the output of `kafka-topics --describe`, as it was printed";
    for (topics, expected) in [
        (String::new(), "it describes no partition".to_owned()),
        (line.replace("Leader: 1", "Leader: x"), "line 1: `x` is no number of a broker".to_owned()),
        (line.replace("\tLeader: 1", ""), "line 1: it has no leader, not even `none`".to_owned()),
        (line.replace("\tIsr: 1", ""), "line 1: it has no field Isr".to_owned()),
        (line.replace("1,2", "1,1"), "line 1: the partition has a replica twice".to_owned()),
        (line.replace("1,2", ""), "line 1: the partition has no replicas".to_owned()),
        (line.replace("1,2", "1,-2"), "line 1: the partition has a broker with a negative number".to_owned()),
        (line.replace("1,2", "1,99999999999"), "line 1: `99999999999` is no number of a broker".to_owned()),
        (
            line.replace(": t\t", ": a b\t"),
            "line 1: its topic has a name that Kafka does not allow".to_owned(),
        ),
        (
            line.replace("Partition: 0", "Partition: -1"),
            "line 1: `-1` is no number of a partition".to_owned(),
        ),
        (format!("{line}{line}"), "line 2: the partition is there a second time".to_owned()),
        (
            format!("Topic: t\tPartitionCount: 2\tConfigs: \n{line}"),
            "topic t has 2 partitions, but 1 are described".to_owned(),
        ),
    ] {
        let error = look(&topics, None, Options::default()).await.unwrap_err();
        assert_eq!(error, format!("topics.txt: {expected}; {remedy}"));
    }
    for (log_dirs, expected) in [
        ("", "it has no JSON"),
        ("a\n{\"version\":1,\"brokers\":[", "line 2: EOF while parsing"),
        ("{\"version\":2,\"brokers\":[]}", "line 1: it has version 2, and only 1 is known"),
        ("{\"version\":1}", "line 1: missing field `brokers`"),
        (&LOG_DIRS.replace("700", "-700"), "line 3: orders-0 has -700 bytes"),
        (&LOG_DIRS.replace("\"orders-0\"", "\"orders\""), "line 3: `orders` is no partition"),
    ] {
        let error = look(TOPICS, Some(log_dirs), by_bytes()).await.unwrap_err();
        assert!(error.starts_with(&format!("log-dirs.txt: {expected}")), "{error}");
        assert!(
            error.ends_with("give the output of `kafka-log-dirs --describe`, as it was printed"),
            "{error}"
        );
    }
    let folder = Folder::new();
    for (rates, expected) in [
        ("", "it is empty"),
        ("topic,rate\n", "line 1: no column is called partition"),
        ("topic,partition\n", "line 1: no column is called rate or bytes_per_second"),
        ("rate,partition,rate\n", "line 1: two columns have the same name"),
        ("partition,rate\nt-0\n", "line 2: it has 1 cells, and the first line 2"),
        ("partition,rate\nt-,1\n", "line 2: `t-` is no partition"),
        ("partition,rate\nt-0,NaN\n", "line 2: `NaN` is no rate"),
        ("partition,rate\nt-0,1e300\n", "line 2: `1e300` is no rate"),
        ("partition,rate\nt-0,-1\n", "line 2: `-1` is no rate"),
        ("partition,rate\nt-0,1\nt-0,1\n", "line 3: t-0 is there a second time"),
    ] {
        let path = folder.file("rates.csv", rates);
        let options = Options { weigh: Weigh::Rates(path.clone()), ..Options::default() };
        let error = look(TOPICS, None, options).await.unwrap_err();
        assert!(error.starts_with(&format!("{}: {expected}; give CSV", path.display())), "{error}");
    }
    let error = look(TOPICS, None, by_bytes()).await.unwrap_err();
    assert!(error.starts_with("bytes are not known; give the output of `kafka-log-dirs"), "{error}");
    let files = Files { topics: folder.file("bytes", [0xFF, 0xFE]), log_dirs: None };
    let error = Kafka::from_files(files, Options::default()).unwrap().look().await.unwrap_err();
    assert!(error.0.contains("it is no text in UTF-8"), "{error}");
}

/// Any text either is the output of a tool or an error.
#[tokio::test]
async fn damaged_output_is_no_panic() {
    for seed in 0..300 {
        let mut damage = noise(seed, 24).into_iter().map(usize::from);
        let mut next = || damage.next().unwrap() << 8 | damage.next().unwrap();
        let mut hurt = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..3 {
                let at = next() % bytes.len();
                bytes[at] = b"0-,:\t\n\"x"[next() % 8];
            }
            String::from_utf8(bytes).unwrap()
        };
        let (topics, log_dirs) = (hurt(TOPICS), hurt(LOG_DIRS));
        if let Ok(look) = look(&topics, Some(&log_dirs), by_bytes()).await {
            let n = look.servers.len() as u32;
            assert!(
                look.groups.iter().flat_map(|group| &group.members).all(|member| *member < n),
                "seed {seed}"
            );
        }
    }
}

fn change(group: &str, to: &str, before: &[&str], after: &[&str]) -> Change {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Change {
        group: group.to_owned(),
        from: before[0].to_owned(),
        to: to.to_owned(),
        before: owned(before),
        after: owned(after),
    }
}

#[tokio::test]
async fn scripts_for_the_tools() {
    let folder = Folder::new();
    let files = Files { topics: folder.file("topics.txt", TOPICS), log_dirs: None };
    let mut kafka = Kafka::from_files(files, Options::default()).unwrap();
    let look = kafka.look().await.unwrap();
    let changes = [
        change("orders-0", "3", &["2", "3", "10"], &["3", "2", "10"]),
        change("a-b.c_d-11", "10", &["2", "10"], &["10", "2"]),
    ];
    let scripts = kafka.commands(&look, &changes).unwrap();
    let texts: Vec<(&str, &str)> = scripts.iter().map(|script| (script.kind, script.text.as_str())).collect();
    let reassignment = "{\"version\":1,\"partitions\":[\n\
        {\"partition\":0,\"replicas\":[3,2,10],\"topic\":\"orders\"},\n\
        {\"partition\":11,\"replicas\":[10,2],\"topic\":\"a-b.c_d\"}\n]}\n";
    let election = "{\"partitions\":[\n{\"partition\":0,\"topic\":\"orders\"},\n\
        {\"partition\":11,\"topic\":\"a-b.c_d\"}\n]}\n";
    assert_eq!(texts, [("reassignment", reassignment), ("election", election)]);
    for (bad, expected) in [
        (change("orders-0", "4", &["2", "3"], &["4", "2"]), "other replicas, [4, 2] for [2, 3]"),
        (change("orders-0", "2", &["2", "3"], &["2"]), "other replicas"),
        (change("orders-0", "9", &["2", "3"], &["3", "2"]), "`9` is none of its replicas"),
        (change("orders", "3", &["2", "3"], &["3", "2"]), "this is no partition"),
        (change("a\"b-0", "3", &["2", "3"], &["3", "2"]), "this is no partition"),
        (change("orders-0", "x", &["x", "3"], &["3", "x"]), "`x` is no number of a broker"),
    ] {
        let error = kafka.commands(&look, &[bad]).unwrap_err();
        assert!(error.0.contains(expected), "{error}");
    }
    let error = kafka.apply(&look, &changes).await.unwrap_err();
    assert!(error.0.contains("files cannot be changed"), "{error}");
}

/// What a broker does with the bytes of an answer to Metadata, whose header is the length and the number of the request.
type Answer = Arc<dyn Fn(i32) -> Vec<u8> + Send + Sync>;

/// A broker that knows requests in these versions, and answers Metadata in a way of its own.
async fn broker(versions: &'static [(i16, i16, i16)], metadata: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let metadata = metadata.clone();
            tokio::spawn(async move {
                while let Ok(length) = stream.read_u32().await {
                    let mut request = vec![0; length as usize];
                    stream.read_exact(&mut request).await.unwrap();
                    let key = i16::from_be_bytes([request[0], request[1]]);
                    let id = i32::from_be_bytes(request[4..8].try_into().unwrap());
                    let answer = if key == 18 {
                        let mut body =
                            [&id.to_be_bytes()[..], &[0, 0], &(versions.len() as u32).to_be_bytes()].concat();
                        for (key, first, last) in versions {
                            [key, first, last].iter().for_each(|number| body.extend(number.to_be_bytes()));
                        }
                        framed(&body)
                    } else {
                        metadata(id)
                    };
                    if answer.is_empty() || stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

const KNOWN: &[(i16, i16, i16)] = &[(3, 0, 12), (35, 1, 4), (46, 0, 0), (45, 0, 1), (43, 0, 2), (32, 1, 4)];

/// An answer to Metadata: a broker and a topic `t` with one partition.
fn metadata(id: i32) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    // No tags, no throttling, one broker: 1, `h`, 9092, no rack, no tags.
    body.extend([0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, b'h', 0, 0, 35, 132, 0, 0]);
    // The cluster `c`, controller 1, one topic: no error, `t`, not internal, one partition.
    body.extend([2, b'c', 0, 0, 0, 1, 2, 0, 0, 2, b't', 0, 2]);
    // No error, partition 0, leader 1, epoch 0, replica 1, in sync 1, none offline, no tags.
    body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 0]);
    // What one may do, tags, and the same for the cluster.
    body.extend([128, 0, 0, 0, 0, 128, 0, 0, 0, 0]);
    body
}

async fn connect(address: &str) -> Result<Kafka, String> {
    let options = Options {
        answer_timeout: Duration::from_millis(300),
        patience: Duration::from_millis(600),
        ..Options::default()
    };
    Kafka::connect(&[address.to_owned()], options).await.map_err(|error| error.0)
}

#[tokio::test]
async fn brokers_that_answer_nonsense() {
    let cases: Vec<(Answer, &str)> = vec![
        (Arc::new(|id| framed(&metadata(id))), ""),
        (Arc::new(|id| framed(&metadata(id + 1))), "malformed: it is for another request"),
        (Arc::new(|_| Vec::new()), "the connection was closed"),
        (Arc::new(|_| vec![0, 0, 0, 9, 0]), "no answer within 0.3 s to Metadata"),
        (
            Arc::new(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            "no broker that speaks as asked to; name a listener",
        ),
        (Arc::new(|_| framed(&[])), "malformed: it ends early"),
        (
            Arc::new(|id| framed(&[&metadata(id)[..], &[0]].concat())),
            "malformed: it has more than belongs there",
        ),
        // Two billion brokers.
        (
            Arc::new(|id| framed(&[&metadata(id)[..9], &[0xFF, 0xFF, 0xFF, 0xFF, 0x07], &[0; 64]].concat())),
            "malformed: a count in it is larger than the answer",
        ),
        (Arc::new(|id| framed(&[&metadata(id)[..4], &[0x90; 64]].concat())), "malformed: "),
    ];
    for (answer, expected) in cases {
        let address = broker(KNOWN, answer).await;
        let connected = connect(&address).await;
        match connected {
            Ok(_) => assert_eq!(expected, ""),
            Err(error) => {
                assert!(!expected.is_empty() && error.contains(expected), "{error}, not {expected}");
            }
        }
    }
    let old: &[(i16, i16, i16)] = &[(3, 0, 5)];
    for (versions, expected) in
        [(old, "knows Metadata only from version 0 to 5"), (&[], "does not know Metadata")]
    {
        let error = connect(&broker(versions, Arc::new(|_| Vec::new())).await).await.unwrap_err();
        assert!(error.contains(expected) && error.contains("which Kafka has from 2.4 on"), "{error}");
    }
    let error = connect("127.0.0.1:1").await.unwrap_err();
    assert!(error.contains("127.0.0.1:1: cannot connect"), "{error}");
    let error = connect("nowhere").await.unwrap_err();
    assert_eq!(error, "`nowhere` is no address of a broker; give HOST:PORT");
}

/// An answer with a few bytes that were changed, or without its end, is an error or an answer; it takes neither much time
/// nor much memory.
#[tokio::test]
async fn damaged_answers_are_no_panic() {
    let begun = Instant::now();
    for seed in 0..400 {
        let answer: Answer = Arc::new(move |id| {
            let mut body = metadata(id);
            let mut damage = noise(seed, 16).into_iter().map(usize::from);
            let mut next = || damage.next().unwrap();
            for _ in 0..=next() % 3 {
                let at = 4 + next() % (body.len() - 4);
                body[at] = next() as u8;
            }
            if next() % 4 == 0 {
                body.truncate(4 + next() % (body.len() - 4));
            }
            framed(&body)
        });
        let _ = connect(&broker(KNOWN, answer).await).await;
    }
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}

/// Which replicas each partition has, in any order.
fn sets(look: &Look) -> BTreeMap<&str, Vec<u32>> {
    let sorted = |group: &Group| {
        let mut members = group.members.clone();
        members.sort_unstable();
        members
    };
    look.groups.iter().map(|group| (group.name.as_str(), sorted(group))).collect()
}

/// The change that makes one of the members of a group lead it.
fn leads(look: &Look, group: &Group, to: u32) -> Change {
    let names =
        |ids: &[u32]| ids.iter().map(|id| look.servers[*id as usize].name.clone()).collect::<Vec<_>>();
    let mut after = vec![to];
    after.extend(group.members.iter().filter(|member| **member != to));
    Change {
        group: group.name.clone(),
        from: names(&[group.leader.unwrap()])[0].clone(),
        to: names(&[to])[0].clone(),
        before: names(&group.members),
        after: names(&after),
    }
}

fn undo(change: &Change) -> Change {
    Change {
        group: change.group.clone(),
        from: change.to.clone(),
        to: change.from.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster() {
    let Ok(address) = std::env::var("EVENKEEL_TEST_KAFKA") else {
        println!("skipped: EVENKEEL_TEST_KAFKA names no broker; `cargo xtask cluster selftest kafka` does");
        return;
    };
    let login = std::env::var_os("EVENKEEL_TEST_KAFKA_LOGIN").map(PathBuf::from);
    let login = login.map(|path| Login::read(&path).unwrap()).unwrap_or_default();
    let options = Options { login, ..by_bytes() };
    let mut kafka = Kafka::connect(&[address], options).await.unwrap();
    let first = kafka.look().await.unwrap();
    assert_eq!(first, kafka.look().await.unwrap());
    assert_eq!(first.refusals, [""; 0]);
    assert!(first.groups.iter().map(|group| group.weight).sum::<u64>() > 0, "{first:?}");
    let choices = first.groups.iter().filter(|group| group.eligible.len() > 1).take(5);
    let other = |group: &&Group| group.eligible.iter().copied().find(|id| Some(*id) != group.leader).unwrap();
    let there: Vec<Change> = choices.clone().map(|group| leads(&first, group, other(&group))).collect();
    assert!(there.len() > 2, "{first:?}");

    // There, and there again, which changes nothing more.
    kafka.apply(&first, &there).await.unwrap();
    let second = kafka.look().await.unwrap();
    kafka.apply(&second, &there).await.unwrap();
    assert_eq!(second, kafka.look().await.unwrap());
    assert_eq!(sets(&first), sets(&second));
    for (change, group) in there.iter().zip(choices) {
        let now = second.groups.iter().find(|now| now.name == group.name).unwrap();
        assert_eq!(leads(&second, now, other(&group)).before, change.after);
        assert_eq!(now.leader, Some(other(&group)));
    }
    let unchanged = |group: &&Group| !there.iter().any(|change| change.group == group.name);
    let others = |look: &Look| look.groups.iter().filter(unchanged).cloned().collect::<Vec<_>>();
    assert_eq!(others(&first), others(&second));

    // A leader that is not the first of its replicas, and back to one that is.
    let odd = Change { after: there[0].before.clone(), before: there[0].after.clone(), ..there[0].clone() };
    kafka.apply(&second, std::slice::from_ref(&odd)).await.unwrap();
    let third = kafka.look().await.unwrap();
    let now = third.groups.iter().find(|group| group.name == odd.group).unwrap();
    assert_eq!(third.servers[now.leader.unwrap() as usize].name, odd.to);
    assert_eq!(leads(&third, now, now.leader.unwrap()).before, odd.after);

    let back: Vec<Change> = there.iter().map(undo).collect();
    kafka.apply(&third, &back).await.unwrap();
    assert_eq!(first, kafka.look().await.unwrap());

    // What is refused changes nothing.
    let mut foreign = there[0].clone();
    foreign.before.push("99".to_owned());
    foreign.after.push("99".to_owned());
    let error = kafka.apply(&first, &[there[1].clone(), foreign]).await.unwrap_err();
    assert!(error.0.contains("by now, not"), "{error}");
    let gone = Change { group: "no-such-topic-0".to_owned(), ..there[0].clone() };
    let error = kafka.apply(&first, &[gone]).await.unwrap_err();
    assert!(error.0.contains("no topic is called `no-such-topic`"), "{error}");
    assert_eq!(first, kafka.look().await.unwrap());
}
