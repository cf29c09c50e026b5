//! Sources by the addresses that people write.

use crate::cluster::Keel;
use crate::error::{Problem, StoreError};
use crate::{Folder, Hdfs, Http, S3, Source, WebHdfs};

/// Opens the source at an address: `keel://…` (in the cluster that the variable `EVENKEEL_CLUSTER` names), `hdfs://…`, `webhdfs://…`, `s3://…`, `http://…`, `https://…`, `file:///…` or a path.
/// Nothing is asked of it yet.
///
/// An address of a web server that ends with `/` is a folder, any other a single file.
pub fn open(address: &str) -> Result<Box<dyn Source>, StoreError> {
    match address.split_once("://") {
        None => Ok(Box::new(Folder::new(address))),
        Some(("file", path)) if path.starts_with('/') => Ok(Box::new(Folder::new(path))),
        Some(("file", _)) => {
            let problem = "a file address has three slashes, file:///path, and names a folder or file here";
            Err(Problem::Unsupported(problem.to_owned()).at(address))
        }
        Some(("http" | "https", _)) => Ok(Box::new(Http::new(address)?)),
        Some(("s3", _)) => Ok(Box::new(S3::new(address)?)),
        Some(("keel", _)) => Ok(Box::new(Keel::of_environment(address)?)),
        Some(("hdfs", _)) => Ok(Box::new(Hdfs::new(address)?)),
        Some(("webhdfs" | "swebhdfs" | "webhdfs+https", _)) => Ok(Box::new(WebHdfs::new(address)?)),
        Some((scheme, _)) => {
            let problem = format!(
                "{scheme}:// is not known; give keel://, hdfs://, webhdfs://, s3://, http://, https://, file:/// or a path"
            );
            Err(Problem::Unsupported(problem).at(address))
        }
    }
}
