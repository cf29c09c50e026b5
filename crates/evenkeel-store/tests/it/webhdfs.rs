//! What is particular to HDFS over HTTP: blocks, DataNodes, and servers that refuse or misbehave.

use std::time::Duration;

use evenkeel_store::{Extent, Object, Page, Problem, Source, StoreError, open};
use futures_util::TryStreamExt;
use serde_json::json;

use crate::namenode::{Cluster, node, refusal};
use crate::serve::{Reply, Request};

async fn listed(source: &dyn Source) -> Result<Page, StoreError> {
    let pages: Vec<Page> = source.list().try_collect().await?;
    let mut all = Page::default();
    for page in pages {
        all.objects.extend(page.objects);
        all.unreadable.extend(page.unreadable);
    }
    Ok(all)
}

async fn read(source: &dyn Source, object: &Object, server: usize, to: u64) -> Result<Vec<u8>, StoreError> {
    let chunks: Vec<_> = source.read(object, server, 0..to).await?.try_collect().await?;
    Ok(chunks.concat())
}

fn asks(request: &Request, op: &str) -> bool {
    request.query.get("op").is_some_and(|asked| asked == op)
}

#[tokio::test]
async fn blocks_are_on_datanodes() {
    let cluster = Cluster::start(true);
    let data: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    cluster.put("d/x", &data);
    cluster.put("d/empty", b"");
    let source = open(&cluster.address("d")).unwrap();
    assert!(source.servers().is_empty());
    let page = listed(&*source).await.unwrap();
    let mut names: Vec<String> = cluster.datanodes.iter().map(|node| node.address.clone()).collect();
    names.sort_unstable();
    assert_eq!(source.servers(), names);
    assert_eq!(source.connections(), names.into_iter().zip([3, 3]).collect::<Vec<_>>());
    let [empty, x] = &page.objects[..] else { panic!("{page:?}") };
    assert_eq!((&*empty.key, empty.bytes, &empty.extents[..]), ("empty", 0, &[][..]));
    let second =
        source.servers().iter().position(|name| *name == cluster.datanodes[1].address).unwrap() as u32;
    let extent = |bytes, servers: &[u32]| Extent { bytes, servers: servers.to_vec() };
    let expected = [
        extent(30_000, &[0, 1]),
        extent(30_000, &[second]),
        extent(30_000, &[0, 1]),
        extent(10_000, &[second]),
    ];
    assert_eq!(x.extents, expected);
    assert_eq!(x.address, cluster.address("d/x"));
    for server in 0..2 {
        assert_eq!(read(&*source, x, server, 100_000).await.unwrap(), data);
    }
    // A file by its own name.
    let source = open(&cluster.address("d/x")).unwrap();
    let page = listed(&*source).await.unwrap();
    assert_eq!((page.objects.len(), &*page.objects[0].key), (1, "x"));
    assert_eq!(read(&*source, &page.objects[0], 1, 100_000).await.unwrap(), data);
    let source = open(&cluster.address("nothing")).unwrap();
    assert_eq!(listed(&*source).await.unwrap_err().problem, Problem::NotFound);
}

/// NameNodes list what is not ASCII first.
#[tokio::test]
async fn names_in_the_order_of_name_nodes() {
    let cluster = Cluster::start(true);
    for nth in 10..20 {
        ["ü", "漢", "z"].iter().for_each(|name| cluster.put(&format!("d/{name}{nth}"), b"x"));
    }
    let page = listed(&*open(&cluster.address("d")).unwrap()).await.unwrap();
    assert_eq!(page.objects.len(), 30);
}

/// What listing says if the NameNode answers an operation so.
async fn listing_with(op: &'static str, reply: Reply) -> Result<Page, StoreError> {
    let cluster =
        Cluster::with_tricks(true, move |request| asks(request, op).then(|| reply.clone()), |_| None);
    cluster.put("d/x", &[7; 100]);
    let source = open(&cluster.address("d")).unwrap();
    listed(&*source).await
}

#[tokio::test]
async fn a_namenode_may_refuse() {
    let says = async |reply: Reply| listing_with("LISTSTATUS_BATCH", reply).await.unwrap_err().to_string();
    let standby = says(refusal(403, "StandbyException")).await;
    assert!(
        standby.starts_with("webhdfs://")
            && standby.contains("on standby; give the address of the active one")
    );
    assert!(
        says(refusal(403, "AccessControlException"))
            .await
            .contains("denied (AccessControlException: because)")
    );
    assert!(says(Reply::new(401, "<html>")).await.contains("Kerberos"));
    assert!(says(refusal(403, "SafeModeException")).await.contains("is busy"));
    assert!(says(refusal(500, "NullPointerException")).await.contains("NullPointerException: because"));
    assert!(says(Reply::new(307, "").with("Location", "http://elsewhere/")).await.contains("307"));
}

#[tokio::test]
async fn hostile_listings_are_refused() {
    let says = async |told: serde_json::Value, n: u64| {
        let told = json!({"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": told}},
            "remainingEntries": n}});
        listing_with("LISTSTATUS_BATCH", Reply::new(200, told.to_string())).await.map_err(|e| e.to_string())
    };
    let file = |name: &str| json!({"pathSuffix": name, "type": "FILE", "length": 0, "fileId": 5});
    for name in ["", ".", "..", "a/b", "/etc", "a\0b"] {
        let mut entry = file(name);
        if name.is_empty() {
            entry["type"] = "DIRECTORY".into();
        }
        let error = says(json!([entry]), 0).await.unwrap_err();
        assert!(error.contains("an entry named"), "{name}: {error}");
    }
    // One that never ends.
    assert!(says(json!([file("a")]), 1).await.unwrap_err().contains("circles"));
    assert!(says(json!([]), 1).await.unwrap_err().contains("circles"));
    let folder = json!([{"pathSuffix": "a", "type": "DIRECTORY"}]);
    assert!(says(folder, 0).await.unwrap_err().contains("folders within each other"));
    let link = says(json!([{"pathSuffix": "l", "type": "SYMLINK"}]), 0).await.unwrap();
    assert!(link.unreadable[0].error.to_string().contains("it is a symlink"));
    for wrong in ["", "{}", "[", "{\"DirectoryListing\":{}}", "\u{1}", "null"] {
        let error = listing_with("LISTSTATUS_BATCH", Reply::new(200, wrong)).await.unwrap_err();
        assert!(error.to_string().contains("a listing that cannot be read"), "{wrong}: {error}");
    }
    let negative = json!([{"pathSuffix": "a", "type": "FILE", "length": -1}]);
    assert!(says(negative, 0).await.unwrap_err().contains("cannot be read"));
    // More than fits, or than there is.
    let huge = Reply::new(200, vec![b' '; (64 << 20) + 1]);
    assert!(
        listing_with("LISTSTATUS_BATCH", huge).await.unwrap_err().to_string().contains("more than 64 MiB")
    );
    let short = Reply { claimed: Some(1000), ..Reply::new(200, "{") };
    let error = listing_with("LISTSTATUS_BATCH", short).await.unwrap_err();
    assert!(matches!(error.problem, Problem::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn hostile_locations_are_refused() {
    let says = async |told: serde_json::Value| {
        let reply = Reply::new(200, json!({"LocatedBlocks": told}).to_string());
        let page = listing_with("GET_BLOCK_LOCATIONS", reply).await.unwrap();
        assert!(page.objects.is_empty(), "{page:?}");
        page.unreadable[0].error.to_string()
    };
    let block = |start: u64, n: u64| json!({"startOffset": start, "block": {"numBytes": n}, "locations": [node("127.0.0.1", 1)]});
    let located = |blocks: &[serde_json::Value]| json!({"fileLength": 100, "locatedBlocks": blocks});
    assert!(says(located(&[])).await.contains("no block at 0"));
    assert!(says(located(&[block(0, 50)])).await.contains("a block at 0 in place of 50"));
    assert!(says(located(&[block(1, 99)])).await.contains("a block at 1 in place of 0"));
    assert!(says(located(&[block(0, 0)])).await.contains("in place of 0"));
    assert!(says(located(&[block(0, 101)])).await.contains("in place of 0"));
    assert!(says(located(&[block(0, u64::MAX)])).await.contains("in place of 0"));
    let mut lost = block(0, 100);
    lost["locations"] = json!([]);
    assert!(says(located(&[lost])).await.contains("its block at 0 has no replica"));
    let mut corrupt = block(0, 100);
    corrupt["isCorrupt"] = true.into();
    assert!(says(located(&[corrupt])).await.contains("its block at 0 has no replica"));
    let mut written = located(&[block(0, 100)]);
    written["isUnderConstruction"] = true.into();
    assert!(says(written).await.contains("being written"));
    assert!(says(json!({"fileLength": 101, "locatedBlocks": []})).await.contains("has changed"));
    for (host, port, expected) in [("a b", 1, "a DataNode named `a b`"), ("d1", 0, "give swebhdfs://")] {
        let mut strange = block(0, 100);
        strange["locations"] = json!([node(host, port)]);
        assert!(says(located(&[strange])).await.contains(expected));
    }
}

/// What a read says if the DataNodes answer so.
async fn read_with(reply: Reply) -> Result<Vec<u8>, Problem> {
    let cluster = Cluster::with_tricks(true, |_| None, move |_| Some(reply.clone()));
    cluster.put("d/x", &[7; 100]);
    let source = open(&cluster.address("d")).unwrap();
    let page = listed(&*source).await.unwrap();
    read(&*source, &page.objects[0], 0, 50).await.map_err(|error| {
        assert_eq!(error.address, cluster.address("d/x"));
        error.problem
    })
}

#[tokio::test]
async fn wrong_answers_of_datanodes_are_refused() {
    assert_eq!(read_with(Reply::new(200, [7; 50])).await.unwrap(), [7; 50]);
    assert_eq!(read_with(Reply::new(200, [7; 49])).await, Err(Problem::Changed));
    assert!(matches!(read_with(Reply::new(200, [7; 51])).await, Err(Problem::Damaged(_))));
    let broken = Reply { claimed: Some(50), ..Reply::new(200, [7; 30]) };
    assert!(matches!(read_with(broken.clone()).await, Err(Problem::Unreachable(_))));
    // It has looked for other replicas in vain.
    let given_up = Reply { silence: Duration::from_secs(3), ..broken };
    assert!(matches!(read_with(given_up).await, Err(Problem::Damaged(why)) if why.contains("broke off")));
    let lost = read_with(refusal(403, "BlockMissingException")).await;
    assert_eq!(lost, Err(Problem::Unreachable("BlockMissingException: because".to_owned())));
    assert!(matches!(read_with(refusal(403, "InvalidToken")).await, Err(Problem::Denied(_))));
    assert_eq!(read_with(refusal(403, "EOFException")).await, Err(Problem::Changed));
    assert_eq!(read_with(refusal(404, "FileNotFoundException")).await, Err(Problem::NotFound));
    let elsewhere = Reply::new(307, "").with("Location", "http://127.0.0.1:1/");
    assert!(matches!(read_with(elsewhere).await, Err(Problem::Unsupported(_))));
    assert!(matches!(read_with(Reply::new(503, "")).await, Err(Problem::Refused { .. })));
    assert!(read_with(Reply::new(206, [7; 50])).await.is_err());
}

#[tokio::test]
async fn a_gateway_is_told_from_a_namenode() {
    let gateway = |request: &Request| asks(request, "OPEN").then(|| Reply::new(200, "data"));
    let cluster = Cluster::with_tricks(true, gateway, |_| None);
    cluster.put("d/x", b"data");
    let source = open(&cluster.address("d")).unwrap();
    let page = listed(&*source).await.unwrap();
    let error = read(&*source, &page.objects[0], 0, 4).await.unwrap_err();
    assert!(error.to_string().contains("HttpFS"), "{error}");
}
