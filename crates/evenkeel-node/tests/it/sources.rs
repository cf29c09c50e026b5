//! What sources list: all that can be read, and a word about the rest.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use evenkeel_store::Trust;

use crate::{get_mirrors, quick};

#[tokio::test]
async fn what_cannot_be_listed_does_not_keep_the_rest_from_being_read() {
    let (source, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("sub/deep")).unwrap();
    fs::write(at("sub/deep/good"), "good").unwrap();
    fs::write(source.path().join(OsStr::from_bytes(b"sub/\xFF")), "not UTF-8").unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("itself", at("itself")).unwrap();
    symlink("..", at("sub/deep/up")).unwrap();
    symlink("sub/deep/good", at("file")).unwrap();
    symlink("sub/deep", at("folder")).unwrap();
    let mirrors = [source.path().to_str().unwrap().to_owned()];
    let report = get_mirrors(&mirrors, Trust::Checksums, to.path(), &quick()).await;
    for name in ["sub/deep/good", "file", "folder/good"] {
        assert_eq!(fs::read(to.path().join(name)).unwrap(), b"good", "{name}");
    }
    let told: Vec<(&str, bool)> =
        report.failures.iter().map(|f| (f.key.as_str(), f.why.contains("link leads"))).collect();
    // Through `folder`, the link `up` leads to `sub`, which is not above it, and from there back to `deep`.
    let expected = [
        ("dangling", true),
        ("folder/up/deep/", true),
        ("folder/up/\u{fffd}", false),
        ("itself", false),
        ("sub/deep/up/", true),
        ("sub/\u{fffd}", false),
    ];
    assert_eq!(told, expected, "{:?}", report.failures);
    assert_eq!(report.n_objects, 3);
}

/// What one mirror cannot serve comes from another, without a failure.
#[tokio::test]
async fn what_another_mirror_has_is_read_there() {
    let (east, west) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(west.path().join("sub")).unwrap();
    fs::write(west.path().join("a"), "a").unwrap();
    fs::write(west.path().join("sub/b"), "b").unwrap();
    symlink("nowhere", east.path().join("a")).unwrap();
    symlink(".", east.path().join("sub")).unwrap();
    let mirrors = [east.path(), west.path()].map(|path| path.to_str().unwrap().to_owned());
    let report = get_mirrors(&mirrors, Trust::Sizes, to.path(), &quick()).await;
    assert_eq!(report.failures, []);
    assert_eq!(fs::read(to.path().join("sub/b")).unwrap(), b"b");
}
