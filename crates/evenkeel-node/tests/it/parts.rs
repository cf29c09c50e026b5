//! Single parts from chosen servers: whatever goes wrong at one of them, the rest comes from another, and each byte once.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use evenkeel_node::{Part, PartError, read_part};
use evenkeel_store::{Catalogue, Trust, open};

use crate::noise;
use crate::web::{FAULTS, Fault, Server};

const PATIENCE: Duration = Duration::from_millis(500);

async fn mirrors(files: &BTreeMap<String, Vec<u8>>, fault: Option<Fault>) -> (Vec<Server>, Catalogue) {
    let bad = Server::start(files, true, move |_| fault).await;
    let good = Server::start(files, true, |_| None).await;
    let sources = [&bad, &good].map(|server| open(&server.address).unwrap());
    let catalogue = Catalogue::of_mirrors(sources.into(), Trust::Checksums).await.unwrap();
    (vec![bad, good], catalogue)
}

#[tokio::test]
async fn others_stand_in_for_a_server_that_fails() {
    let data = noise(7, 300_000);
    let files = BTreeMap::from([("file".to_owned(), data.clone())]);
    let faults = FAULTS.into_iter().map(Some).chain([None]);
    // There is no checksum of a part over HTTP.
    for fault in faults.filter(|fault| *fault != Some(Fault::Damage)) {
        let (servers, catalogue) = mirrors(&files, fault).await;
        let bad = catalogue.servers().iter().position(|name| servers[0].address.contains(name.as_str()));
        let part = Part { object: 0, range: 1000..299_000, from: bad };
        let mut got = Vec::new();
        let mut sink = |chunk: &[u8]| {
            got.extend_from_slice(chunk);
            Ok(())
        };
        let report = read_part(&catalogue, &part, PATIENCE, &mut sink).await.unwrap();
        assert!(got == data[1000..299_000], "{fault:?}");
        assert_eq!(report.failures.is_empty(), fault.is_none(), "{fault:?}: {:?}", report.failures);
        assert_eq!(report.servers.iter().map(|(_, bytes)| bytes).sum::<u64>(), 298_000);
        if fault.is_none() {
            assert_eq!(Some(report.servers[0].0), bad);
        }
    }
}

#[tokio::test]
async fn a_part_that_nobody_sends_is_an_error() {
    let files = BTreeMap::from([("file".to_owned(), noise(7, 1000))]);
    let server = Server::start(&files, true, |_| Some(Fault::Gone)).await;
    let sources = vec![open(&server.address).unwrap()];
    let catalogue = Catalogue::of_mirrors(sources, Trust::Checksums).await.unwrap();
    for (range, from) in [(0..1000, Some(0)), (500..2000, None), (2000..3000, None)] {
        let part = Part { object: 0, range, from };
        let error = read_part(&catalogue, &part, PATIENCE, &mut |_| Ok(())).await.unwrap_err();
        assert!(matches!(error, PartError::Unreadable(_)), "{error}");
    }
    let part = Part { object: 0, range: 400..400, from: None };
    assert!(read_part(&catalogue, &part, PATIENCE, &mut |_| Ok(())).await.unwrap().servers.is_empty());
}

#[tokio::test]
async fn nothing_is_read_on_for_a_reader_that_has_left() {
    let files = BTreeMap::from([("file".to_owned(), noise(7, 300_000))]);
    let (_servers, catalogue) = mirrors(&files, None).await;
    let part = Part { object: 0, range: 0..300_000, from: None };
    let mut sink = |_: &[u8]| Err(io::Error::from(io::ErrorKind::BrokenPipe));
    let error = read_part(&catalogue, &part, PATIENCE, &mut sink).await.unwrap_err();
    assert!(matches!(error, PartError::Sink(_)), "{error}");
}
