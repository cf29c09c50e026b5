//! What is particular to S3: names, credentials, and servers that refuse or misbehave.

use std::process::Command;
use std::time::Duration;

use evenkeel_store::{
    Algorithm, Catalogue, Hasher, Metalink, MirroredFile, Object, Origin, Problem, StoreError, Trust, open,
};
use futures_util::{StreamExt, TryStreamExt};

use crate::bucket::{Buckets, Guard, Quirk, refusal};
use crate::serve::Reply;

async fn list(address: &str) -> Result<Vec<Object>, StoreError> {
    open(address).unwrap().list().map_ok(|page| page.objects).try_concat().await
}

async fn keys(address: &str) -> Vec<String> {
    list(address).await.unwrap().into_iter().map(|object| object.key).collect()
}

async fn read(address: &str, object: &Object, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    let source = open(address).unwrap();
    let chunks: Vec<_> = source.read(object, 0, from..to).await?.try_collect().await?;
    Ok(chunks.concat())
}

fn buckets(quirk: Option<Quirk>) -> Buckets {
    let buckets = Buckets::start(1000, None, quirk);
    buckets.put("b/dir/x", "0123456789");
    buckets
}

#[tokio::test]
async fn a_name_is_an_object_or_a_folder() {
    let buckets = buckets(None);
    for key in ["b/dir/", "b/dir/sub/y", "b/dir/x2", "b/dir2/z", "b/dir", "b/top"] {
        buckets.put(key, if key.ends_with('/') { "" } else { "data" });
    }
    let address = |place: &str| buckets.address(place);
    // Objects that stand for folders are none.
    assert_eq!(keys(&address("b/dir/")).await, ["sub/y", "x", "x2"]);
    assert_eq!(keys(&address("b/dir/sub")).await, ["y"]);
    assert_eq!(keys(&address("b/dir/x")).await, ["x"]);
    assert_eq!(keys(&address("b/dir")).await, ["dir"]);
    assert_eq!(keys(&address("b")).await, ["dir", "dir/sub/y", "dir/x", "dir/x2", "dir2/z", "top"]);
    for missing in ["b/nothing", "b/nothing/", "c", "c/x"] {
        assert_eq!(list(&address(missing)).await.unwrap_err().problem, Problem::NotFound, "{missing}");
    }
}

#[tokio::test]
async fn pages_come_one_by_one() {
    let buckets = Buckets::start(10, None, None);
    (0..95).for_each(|n| buckets.put(&format!("b/{n}"), "data"));
    let source = open(&buckets.address("b")).unwrap();
    let mut pages = source.list();
    assert_eq!(pages.next().await.unwrap().unwrap().objects.len(), 10);
    // One for the page, one about the first object.
    assert_eq!(buckets.asked.lock().unwrap().len(), 2);
    let rest: Vec<usize> = pages.map(|page| page.unwrap().objects.len()).collect().await;
    assert_eq!(rest, [10, 10, 10, 10, 10, 10, 10, 10, 5]);
}

/// Who may read and not list can name an object.
#[tokio::test]
async fn objects_can_be_read_without_listing() {
    let quirk: Quirk = Box::new(|request, _| (request.path == "b").then(|| refusal(403, "AccessDenied", "")));
    let buckets = buckets(Some(quirk));
    let objects = list(&buckets.address("b/dir/x")).await.unwrap();
    assert_eq!((objects[0].key.as_str(), objects[0].bytes), ("x", 10));
    assert_eq!(read(&buckets.address("b/dir/x"), &objects[0], 3, 5).await.unwrap(), b"34");
    let error = list(&buckets.address("b/dir/")).await.unwrap_err();
    assert!(
        error.to_string().ends_with("access is denied (AccessDenied: You see); check the credentials"),
        "{error}"
    );
}

/// Whatever a server does wrong when it should send data, the error is the one of other sources.
#[tokio::test]
async fn misbehaviour_has_a_name() {
    type Case = (&'static str, fn(&Reply) -> Reply, fn(&Problem) -> bool);
    let cases: [Case; 14] = [
        ("412", |_| Reply::new(412, ""), |p| *p == Problem::Changed),
        ("416", |_| Reply::new(416, ""), |p| *p == Problem::Changed),
        ("404", |_| refusal(404, "NoSuchKey", ""), |p| *p == Problem::NotFound),
        (
            "busy",
            |_| refusal(503, "SlowDown", "").with("Retry-After", "3"),
            |p| *p == Problem::Refused { retry_after: Some(Duration::from_secs(3)) },
        ),
        ("busy for ever", |_| refusal(503, "SlowDown", ""), |p| *p == Problem::Refused { retry_after: None }),
        (
            "expired",
            |_| refusal(400, "ExpiredToken", ""),
            |p| *p == Problem::Denied("ExpiredToken: You see".into()),
        ),
        (
            "archived",
            |_| refusal(403, "InvalidObjectState", "<StorageClass>GLACIER</StorageClass>"),
            |p| p.to_string().starts_with("is archived (GLACIER); restore it first"),
        ),
        ("broken", |_| refusal(500, "InternalError", ""), |p| matches!(p, Problem::Unreachable(_))),
        ("whole for a range", |_| Reply::new(200, "0123456789"), |p| matches!(p, Problem::Unsupported(_))),
        (
            "another range",
            |reply| {
                let mut reply = reply.clone();
                reply.headers.retain(|(name, _)| name != "Content-Range");
                reply.with("Content-Range", "bytes 3-6/10")
            },
            |p| matches!(p, Problem::Damaged(_)),
        ),
        (
            "another size",
            |reply| {
                let mut reply = reply.clone();
                reply.headers.retain(|(name, _)| name != "Content-Range");
                reply.with("Content-Range", "bytes 2-5/11")
            },
            |p| *p == Problem::Changed,
        ),
        (
            "another version",
            |reply| {
                let mut reply = reply.clone();
                reply.headers.retain(|(name, _)| name != "ETag");
                reply.with("ETag", "\"v2\"")
            },
            |p| *p == Problem::Changed,
        ),
        (
            "short",
            |reply| Reply { claimed: Some(4), body: b"23".to_vec(), ..reply.clone() },
            |p| matches!(p, Problem::Unreachable(_)),
        ),
        (
            "long",
            |reply| Reply { body: b"2345678".to_vec(), ..reply.clone() },
            |p| matches!(p, Problem::Damaged(_)),
        ),
    ];
    for (name, misbehave, is_expected) in cases {
        let is_data = |method: &str, path: &str| method == "GET" && path == "b/dir/x";
        let buckets = buckets(Some(Box::new(move |request, reply| {
            is_data(&request.method, &request.path).then(|| misbehave(reply))
        })));
        let address = buckets.address("b/dir/");
        // The catalogue counts what comes.
        let sources = vec![open(&address).unwrap()];
        let catalogue = Catalogue::of_mirrors(sources, Trust::Checksums).await.unwrap();
        let body = match catalogue.read(&catalogue.object(0), 0, 2..6).await {
            Ok(body) => body.try_collect::<Vec<_>>().await,
            Err(error) => Err(error),
        };
        let error = body.expect_err(name);
        assert!(is_expected(&error.problem), "{name}: {error:?}");
        assert!(error.address.ends_with("/b/dir/x"), "{name}: {error}");
        // Nothing is tried again: that is for the executor.
        let n_asked = buckets.asked.lock().unwrap().iter().filter(|asked| *asked == "GET b/dir/x").count();
        assert_eq!(n_asked, 1, "{name}");
    }
}

#[tokio::test]
async fn damaged_listings_are_refused() {
    let cases = [
        ("<html>hello", "cannot be read"),
        ("", "cannot be read"),
        ("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "how to ask for them"),
        (
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>\
             </ListBucketResult>",
            "in circles",
        ),
    ];
    for (body, message) in cases {
        let quirk: Quirk = Box::new(move |request, _| (request.path == "b").then(|| Reply::new(200, body)));
        let error = list(&buckets(Some(quirk)).address("b")).await.unwrap_err();
        assert!(error.to_string().contains(message), "{body}: {error}");
    }
}

/// A tag is an MD5 only where nothing speaks against it.
#[tokio::test]
async fn tags_of_encrypted_objects_are_no_checksums() {
    let n_hashes = |objects: &[Object]| objects.iter().map(|object| object.hashes.len()).collect::<Vec<_>>();
    let encrypted = |how: &'static str, which: &'static str| -> Quirk {
        Box::new(move |request, reply| {
            request.path.ends_with(which).then(|| reply.clone().with("x-amz-server-side-encryption", how))
        })
    };
    let with_two = |quirk| {
        let buckets = buckets(Some(quirk));
        buckets.put("b/dir/y", "9876543210");
        buckets
    };
    let usual = with_two(encrypted("AES256", "x"));
    assert_eq!(n_hashes(&list(&usual.address("b/dir/")).await.unwrap()), [1, 1]);
    let by_kms = with_two(encrypted("aws:kms", "x"));
    assert_eq!(n_hashes(&list(&by_kms.address("b/dir/")).await.unwrap()), [0, 0]);
    // The second one only: reading it says so.
    let mixed = with_two(encrypted("aws:kms", "y"));
    let address = mixed.address("b/dir/");
    let objects = list(&address).await.unwrap();
    assert_eq!(n_hashes(&objects), [1, 1]);
    assert!(read(&address, &objects[0], 0, 10).await.is_ok());
    let error = read(&address, &objects[1], 0, 10).await.unwrap_err();
    assert!(error.to_string().contains("add opaque_etags=true"), "{error}");
    let address = format!("{address}&opaque_etags=true");
    let objects = list(&address).await.unwrap();
    assert_eq!(n_hashes(&objects), [0, 0]);
    assert_eq!(read(&address, &objects[1], 0, 10).await.unwrap(), b"9876543210");
}

/// What was uploaded in parts has checksums if the server keeps them for the whole object.
#[tokio::test]
async fn checksums_of_objects_in_parts_are_asked_for() {
    let quirk = |kind: &'static str| -> Quirk {
        Box::new(move |request, reply| match request.path.as_str() {
            "b" => Some(Reply::new(
                200,
                "<ListBucketResult><Contents><Key>dir/x</Key><ETag>\"abc-2\"</ETag><Size>10</Size></Contents>\
                 </ListBucketResult>",
            )),
            _ if request.headers.contains_key("x-amz-checksum-mode") => Some(
                reply
                    .clone()
                    .with("x-amz-checksum-crc32c", "KAwGng==")
                    .with("x-amz-checksum-sha256", "KAwGng==-2")
                    .with("x-amz-checksum-type", kind),
            ),
            _ => None,
        })
    };
    let whole = list(&buckets(Some(quirk("FULL_OBJECT"))).address("b")).await.unwrap();
    let algorithms: Vec<Algorithm> = whole[0].hashes.iter().map(|hash| hash.algorithm).collect();
    assert_eq!(algorithms, [Algorithm::Crc32c]);
    let of_parts = list(&buckets(Some(quirk("COMPOSITE"))).address("b")).await.unwrap();
    assert_eq!(of_parts[0].hashes, []);
}

/// A name that no web address can have is refused, and never becomes another object.
#[tokio::test]
async fn names_are_never_resolved() {
    let buckets = buckets(None);
    buckets.put("b/secret", "secret");
    buckets.put("b/dir/../secret", "other");
    let address = buckets.address("b/dir/");
    let objects = list(&address).await.unwrap();
    let object = objects.iter().find(|object| object.key == "../secret").unwrap();
    let error = read(&address, object, 0, 5).await.unwrap_err();
    assert!(matches!(error.problem, Problem::Unsupported(_)), "{error}");
}

/// Credentials, regions and endpoints come from profiles and the environment. These belong to a process, so that each
/// case has one of its own.
#[test]
fn profiles_are_used() {
    let guard = Guard { key_id: "KEY1".to_owned(), region: "garage".to_owned(), public: "" };
    let buckets = Buckets::start(1000, Some(guard), None);
    buckets.put("b/x", "data");
    let endpoint = &buckets.server.address;
    let folder = tempfile::tempdir().unwrap();
    let (keys, config) = (folder.path().join("credentials"), folder.path().join("config"));
    let text = |profile: &str, key: &str| {
        format!("[{profile}]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
    };
    std::fs::write(&keys, [text("default", "KEY2"), text("mine", "KEY1")].concat()).unwrap();
    std::fs::write(&config, format!("[profile mine]\nregion = garage\nendpoint_url = {endpoint}\n")).unwrap();
    let list = |address: &str, variables: &[(&str, &str)]| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "s3::listing_in_a_process_of_its_own", "--nocapture"])
            .env("EVENKEEL_TEST_ADDRESS", address)
            .env("AWS_SHARED_CREDENTIALS_FILE", &keys)
            .env("AWS_CONFIG_FILE", &config)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let expect = |address: &str, variables: &[(&str, &str)], expected: &str| {
        let printed = list(address, variables);
        assert!(printed.contains(expected), "{address} {variables:?}: {printed}");
    };
    let at = |query: &str| format!("s3://b/?endpoint={endpoint}{query}");
    expect(&at("&profile=mine"), &[], "listed x");
    // The region is learnt.
    expect(&at("&profile=mine&region=elsewhere"), &[], "listed x");
    expect("s3://b/?profile=mine", &[], "listed x");
    expect("s3://b/", &[("AWS_PROFILE", "mine")], "listed x");
    expect(
        "s3://b/",
        &[("AWS_PROFILE", "mine"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:9")],
        "cannot be reached",
    );
    expect(
        &at(""),
        &[],
        "access is denied (InvalidAccessKeyId: The key is not in our records); check the credentials",
    );
    // A profile that is named precedes keys in the environment.
    let keys = [("AWS_ACCESS_KEY_ID", "KEY1"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "garage")];
    expect(&at(""), &keys, "listed x");
    let wrong = [("AWS_ACCESS_KEY_ID", "KEY3"), ("AWS_SECRET_ACCESS_KEY", "s")];
    expect(&at("&profile=mine"), &wrong, "listed x");
    expect(&at("&anonymous=true"), &keys, "AccessDenied");
    expect(&at("&profile=nobody"), &[], "no credentials can be had");
    let nobody = [("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"), ("AWS_CONFIG_FILE", "/nowhere")];
    expect(&at(""), &nobody, "read a public bucket by anonymous=true");
}

#[tokio::test]
#[ignore = "run by `profiles_are_used`"]
async fn listing_in_a_process_of_its_own() {
    let address = std::env::var("EVENKEEL_TEST_ADDRESS").unwrap();
    match list(&address).await {
        Ok(objects) => objects.iter().for_each(|object| println!("listed {}", object.key)),
        Err(error) => println!("failed: {error}"),
    }
}

/// A manifest may name objects in buckets, at any endpoint and under any key, beside files of this machine.
#[tokio::test]
async fn a_manifest_may_name_objects() {
    let (east, west, folder) =
        (buckets(None), Buckets::start(1000, None, None), tempfile::tempdir().unwrap());
    west.put("mirror/what?", "0123456789");
    let local = folder.path().join("local").display().to_string();
    std::fs::write(&local, "0123456789").unwrap();
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"0123456789");
    let file = MirroredFile {
        name: "x".to_owned(),
        bytes: Some(10),
        hashes: vec![hasher.finish()],
        pieces: None,
        urls: vec![east.address("b/dir/x"), west.address("mirror/what?"), local],
    };
    let catalogue = |file: MirroredFile| async {
        let (source, unusable) = Metalink::new(vec![file], Origin::Manifest, Trust::Checksums).await;
        assert_eq!(unusable, [""; 0]);
        Catalogue::of_mirrors(vec![Box::new(source)], Trust::Checksums).await.unwrap()
    };
    let found = catalogue(file.clone()).await;
    let names = [format!("{}/b", east.server.address), format!("{}/mirror", west.server.address)];
    assert_eq!(found.servers()[..2], names);
    for server in 0..3 {
        let body = found.read(&found.object(0), server, 3..6).await.unwrap();
        assert_eq!(body.try_collect::<Vec<_>>().await.unwrap().concat(), b"345", "{server}");
    }
    // What the manifest does not tell, the bucket does.
    let found = catalogue(MirroredFile { bytes: None, hashes: Vec::new(), ..file.clone() }).await;
    let object = &found.object(0);
    assert_eq!((object.bytes, object.hashes[0].algorithm), (10, Algorithm::Md5));

    // A Metalink may come from anyone, and gets no requests signed.
    let (_, unusable) = Metalink::new(vec![file.clone()], Origin::Metalink, Trust::Checksums).await;
    assert!(unusable[0].contains("cannot be read"), "{unusable:?}");
    let bucket = MirroredFile { urls: vec![east.address("b/dir/")], ..file };
    let (_, unusable) = Metalink::new(vec![bucket], Origin::Manifest, Trust::Checksums).await;
    assert!(unusable[0].contains("it names no object"), "{unusable:?}");
}
