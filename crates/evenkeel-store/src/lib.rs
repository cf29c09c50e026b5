//! Data on real storage: what there is, which servers hold it, and reads from a chosen replica.
//!
//! A [`Source`] is one place that people can name by an address: a folder, a web server, a bucket, a file system with
//! many servers. It lists objects with the servers that hold them, and reads any range of an object
//! from the server that its caller chose. It decides nothing: which server serves what is the business of a plan.
//!
//! A [`Catalogue`] joins sources. Mirrors of the same data become replicas of the same objects, but only where a
//! checksum shows that they are the same; differences are reported, never mixed.
//!
//! ```no_run
//! use evenkeel_store::{Catalogue, Trust, open};
//!
//! # async fn example() -> Result<(), evenkeel_store::StoreError> {
//! let mirrors = vec![open("https://a.example.org/data/")?, open("https://b.example.org/data/")?];
//! let catalogue = Catalogue::of_mirrors(mirrors, Trust::Checksums).await?;
//! for object in catalogue.objects() {
//!     println!("{}: {} bytes, {} replicas", object.key, object.bytes, object.copies.len());
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod catalogue;
pub mod cluster;
mod error;
mod exact;
mod folder;
mod hash;
mod hdfs;
mod http;
mod metalink;
mod s3;
mod user;
mod webhdfs;
mod xml;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use address::open;
pub use catalogue::{Catalogue, CatalogueObject, Copy, Remark, State, Trust};
pub use error::{Problem, StoreError};
pub use folder::Folder;
pub use hash::{Algorithm, Hash, Hasher, Pieces};
pub use hdfs::Hdfs;
#[doc(hidden)]
pub use hdfs::fuzz as hdfs_fuzz;
pub use http::{Announced, Http, announced, fetch, over_http};
pub use metalink::{Metalink, MirroredFile, Origin};
pub use s3::{Answer, Conditions, Elements, Endpoint, Listed, ListedPage, Payload, S3, Written};
#[doc(hidden)]
pub use s3::{Request, Wire};
pub use webhdfs::WebHdfs;
#[doc(hidden)]
pub use webhdfs::fuzz as webhdfs_fuzz;

/// The bytes of a range, in order, as they come.
pub type Body = BoxStream<'static, Result<Bytes, StoreError>>;

/// Storage with one or more servers.
pub trait Source: Debug + Send + Sync {
    /// The names of its servers, by which people know them. [`Extent::servers`] counts in this list. Sources that learn
    /// them from a listing know them all once it is complete; those that are known keep their numbers.
    fn servers(&self) -> Vec<String>;

    /// Whether all data was compared, on its way, with checksums that the storage keeps of it, so that
    /// [`read`](Self::read) passes on no damage.
    fn verifies(&self) -> bool {
        false
    }

    /// How many transfers at once suit one of its servers. Two, so that one is asked for while another arrives, unless its
    /// servers take long to begin.
    fn usual_slots(&self) -> u32 {
        2
    }

    /// How many transfers servers are busy with, as far as the storage told when it was listed: the names of servers, and
    /// the number of each.
    fn connections(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// The checksum of a whole object, if the storage computes one when it is asked. Who has nothing to compare does not
    /// ask.
    fn hash<'a>(&'a self, _object: &'a Object) -> BoxFuture<'a, Option<Hash>> {
        Box::pin(std::future::ready(None))
    }

    /// Where other programs find an object.
    fn url<'a>(&self, object: &'a Object) -> &'a str {
        &object.address
    }

    /// Whether a listing comes in the order of keys, byte by byte. Mirrors that do so can be read while they are listed.
    fn lists_by_key(&self) -> bool {
        false
    }

    /// Lists all objects, in pages as they come. Each object is listed once, in no particular order.
    ///
    /// What is there but cannot be read is part of its page. An error ends the listing, which is then incomplete.
    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>>;

    /// Reads a range of an object from one of the servers that hold it.
    ///
    /// The body has the bytes of the range, or ends with an error; the [`Catalogue`] counts them. If the object is no
    /// longer the one that was listed, as far as its [`identity`](Object::identity) shows, this fails with
    /// [`Problem::Changed`].
    fn read<'a>(
        &'a self,
        object: &'a Object,
        server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>>;
}

/// A part of a listing.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Objects that can be read, as far as the listing shows.
    pub objects: Vec<Object>,
    /// What is there but cannot be read.
    pub unreadable: Vec<Unreadable>,
}

impl From<Vec<Object>> for Page {
    fn from(objects: Vec<Object>) -> Self {
        Self { objects, unreadable: Vec::new() }
    }
}

/// Something in a listing that cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its name, as well as it can be written. That of a folder ends with `/` and stands for all that is in it.
    pub key: String,
    /// Why.
    pub error: StoreError,
}

/// An object of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name, relative to the source's address, with `/` between folders.
    pub key: String,
    /// Where the source finds it again.
    pub address: String,
    /// Its size.
    pub bytes: u64,
    /// The version that was listed, if the source can tell versions apart: an entity tag, or a time of modification.
    pub identity: Option<String>,
    /// Its checksums, as far as the source knows them.
    pub hashes: Vec<Hash>,
    /// The checksums of its pieces, if the source knows them.
    pub pieces: Option<Arc<Pieces>>,
    /// Who holds which part, in order. Together they are the whole object.
    pub extents: Vec<Extent>,
}

/// Consecutive bytes of an object that are held by the same servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of bytes.
    pub bytes: u64,
    /// The servers that hold them, counted in [`Source::servers`].
    pub servers: Vec<u32>,
}

impl Object {
    /// An object held whole by the only server of its source.
    pub(crate) fn on_one_server(key: String, address: String, bytes: u64, identity: Option<String>) -> Self {
        let extents = vec![Extent { bytes, servers: vec![0] }];
        Self { key, address, bytes, identity, hashes: Vec::new(), pieces: None, extents }
    }
}
