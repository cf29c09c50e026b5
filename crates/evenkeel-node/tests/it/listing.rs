//! Reading while the rest is being listed.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_node::{GetError, Happening, Line, Options, Report, get_while_listing};
use evenkeel_store::{Body, Catalogue, Extent, Object, Page, Problem, Source, StoreError, Trust};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{noise, quick};

const N_BYTES: u64 = 1000;

/// The numbers of objects, or what ends the listing.
type Numbers = Result<Vec<usize>, StoreError>;

/// Storage that lists what a test sends.
#[derive(Debug)]
struct Told {
    name: String,
    pages: Mutex<Option<mpsc::Receiver<Numbers>>>,
}

fn told(name: &str) -> (mpsc::Sender<Numbers>, Box<dyn Source>) {
    let (sender, pages) = mpsc::channel(1);
    (sender, Box::new(Told { name: name.to_owned(), pages: Mutex::new(Some(pages)) }))
}

fn key(number: usize) -> String {
    format!("part{number:03}")
}

impl Source for Told {
    fn servers(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn lists_by_key(&self) -> bool {
        true
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        let pages = self.pages.lock().unwrap().take().unwrap();
        let page = |numbers: Vec<usize>| {
            let objects = numbers.into_iter().map(|number| Object {
                key: key(number),
                address: format!("{}/{}", self.name, key(number)),
                bytes: N_BYTES,
                identity: None,
                hashes: Vec::new(),
                pieces: None,
                extents: vec![Extent { bytes: N_BYTES, servers: vec![0] }],
            });
            Page::from(objects.collect::<Vec<Object>>())
        };
        let pages = stream::unfold(pages, |mut pages| async { Some((pages.recv().await?, pages)) });
        pages.map(move |numbers| numbers.map(page)).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        _server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        let number: u64 = object.key.trim_start_matches("part").parse().unwrap();
        let data = noise(number, N_BYTES as usize)[range.start as usize..range.end as usize].to_vec();
        Box::pin(async move { Ok(stream::iter([Ok(data.into())]).boxed()) })
    }
}

/// Reads mirrors while they are listed, and tells of each object that is done.
async fn read(
    mirrors: Vec<Box<dyn Source>>,
    to: &Path,
    options: &Options,
    done: mpsc::UnboundedSender<String>,
) -> Result<Report, GetError> {
    let (sender, listing) = watch::channel(Arc::default());
    let lister = tokio::spawn(async move {
        let mut show = |catalogue| drop(sender.send_replace(Arc::new(catalogue)));
        Catalogue::list(mirrors, Trust::Sizes, &|key| key != "part999", &mut show).await;
    });
    let (_stop, stopped) = watch::channel(false);
    let mut watch = |line: &Line<'_>| {
        if let Happening::Done { key, .. } = &line.what {
            done.send(key.to_string()).unwrap();
        }
    };
    let reading = get_while_listing(listing, to, options, stopped, &mut watch);
    let report = timeout(Duration::from_secs(30), reading).await.expect("an end");
    lister.await.unwrap();
    report
}

fn is_there(to: &Path, number: usize) -> bool {
    std::fs::read(to.join(key(number))).is_ok_and(|data| data == noise(number as u64, N_BYTES as usize))
}

/// The listings go on only after what they have listed was read.
#[tokio::test]
async fn what_all_mirrors_have_listed_is_read_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let ((first, one), (second, other)) = (told("one"), told("other"));
    let (done, mut is_done) = mpsc::unbounded_channel();
    let (to, options) = (folder.path().join("to"), quick());
    let telling = async move {
        first.send(Ok(vec![0, 1, 2, 3])).await.unwrap();
        // The other mirror may still list others before 3.
        second.send(Ok(vec![0, 1, 999])).await.unwrap();
        for _ in 0..2 {
            is_done.recv().await.unwrap();
        }
        first.send(Ok(vec![5])).await.unwrap();
        first.send(Err(problem())).await.unwrap();
        second.send(Ok(vec![2, 3, 5, 6])).await.unwrap();
        for _ in 0..2 {
            is_done.recv().await.unwrap();
        }
        // Both should have come before. One is read nevertheless, the other is known.
        second.send(Ok(vec![4, 1])).await.unwrap();
        second.send(Ok(vec![7])).await.unwrap();
        is_done
    };
    let (report, _is_done) = tokio::join!(read(vec![one, other], &to, &options, done), telling);
    let report = report.unwrap();
    assert_eq!((report.n_objects, report.failures.as_slice(), &report.unlisted), (8, [].as_slice(), &None));
    assert!((0..8).all(|number| is_there(&to, number)));
    assert_eq!(report.received_bytes, 8 * N_BYTES);
}

/// What was listed is read, and the rest is not forgotten: the next read has only that to do.
#[tokio::test]
async fn a_listing_that_breaks_off() {
    let folder = tempfile::tempdir().unwrap();
    let (to, options) = (folder.path().join("to"), quick());
    for breaks in [true, false] {
        let (telling, source) = told("only");
        let (done, mut is_done) = mpsc::unbounded_channel();
        let reading = read(vec![source], &to, &options, done);
        let telling = async move {
            telling.send(Ok(vec![3, 4])).await.unwrap();
            if breaks {
                is_done.recv().await.unwrap();
                telling.send(Err(problem())).await.unwrap();
            } else {
                telling.send(Ok(vec![5])).await.unwrap();
            }
            is_done
        };
        let (report, _is_done) = tokio::join!(reading, telling);
        let report = report.unwrap();
        assert_eq!(report.unlisted.is_some(), breaks, "{:?}", report.unlisted);
        assert!(report.failures.is_empty());
        assert_eq!(report.n_kept, if breaks { 0 } else { 2 });
        assert!(is_there(&to, 3) && is_there(&to, 4) && is_there(&to, 5) != breaks);
    }
    let left: Vec<_> = std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

fn problem() -> StoreError {
    StoreError { address: "only".to_owned(), problem: Problem::TimedOut }
}
