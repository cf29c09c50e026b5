//! Queries a Parquet file that several mirrors hold: through each mirror alone, then through all of them as one store.
//!
//! The reader is that of the `parquet` crate, on which query engines build. DataFusion itself cannot be used yet: version
//! 55 has `object_store` 0.13, whose trait is not that of 0.14, which `Balanced` implements.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use evenkeel_node::{Balanced, BalancedOptions};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
// Deprecated since version 59 in favour of readers of one's own, which would do the same.
#[expect(deprecated)]
use parquet::arrow::async_reader::ParquetObjectReader;
use parquet::arrow::{ArrowWriter, ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::properties::WriterProperties;

const USAGE: &str = "usage:
  evenkeel-example-parquet make FILE             writes a file of 70 MiB with ten row groups
  evenkeel-example-parquet query NAME MIRROR …   queries it at mirrors, such as http://a.org/data/";

const ROW_GROUPS: i64 = 10;
const ROWS_PER_GROUP: i64 = 1 << 18;
const N_ZONES: u64 = 5;
/// How many row groups are read at once.
const N_AT_ONCE: usize = 8;

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", file] => make(file),
        ["query", name, mirrors @ ..] if !mirrors.is_empty() => compare(&Path::parse(name)?, mirrors).await,
        _ => bail!(USAGE),
    }
}

/// Writes rides of taxis, the same ones every time.
fn make(file: &str) -> Result<()> {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        // The constants of Knuth's MMIX. The upper bits are the random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut group = |number: i64| {
        let rides = number * ROWS_PER_GROUP..(number + 1) * ROWS_PER_GROUP;
        let zones = Int32Array::from_iter_values(rides.clone().map(|_| draw(N_ZONES) as i32));
        let metres = Int64Array::from_iter_values(rides.clone().map(|_| draw(20_000) as i64));
        let cents = Int64Array::from_iter_values(rides.clone().map(|_| draw(8_000) as i64));
        let rides = Int64Array::from_iter_values(rides);
        RecordBatch::try_from_iter([
            ("ride", Arc::new(rides) as ArrayRef),
            ("zone", Arc::new(zones)),
            ("metres", Arc::new(metres)),
            ("cents", Arc::new(cents)),
        ])
    };
    // As large as it looks, so that there is something to transfer.
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let first = group(0)?;
    let mut writer = ArrowWriter::try_new(File::create(file)?, first.schema(), Some(plain))?;
    writer.write(&first)?;
    for number in 1..ROW_GROUPS {
        writer.flush()?;
        writer.write(&group(number)?)?;
    }
    writer.close()?;
    Ok(())
}

/// Queries each mirror alone, then all of them as one store.
async fn compare(path: &Path, addresses: &[&str]) -> Result<()> {
    // Whichever provider of TLS is installed first is used by all, and this one builds fast.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut mirrors = Vec::new();
    for address in addresses {
        mirrors.push(((*address).to_owned(), mirror(address)?));
    }
    let width = addresses.iter().map(|address| address.len()).max().unwrap_or_default() + 2;
    println!("{:width$} seconds     MB", "");
    let row = |label: &str, seconds: &str, bytes: u64| {
        println!("{label:width$} {seconds:>7} {:6.1}", bytes as f64 / 1e6);
    };
    let seconds = |since: Instant| format!("{:.1}", since.elapsed().as_secs_f64());
    let mut answers = Vec::new();
    for (address, store) in &mirrors {
        let begun = Instant::now();
        let answer = query(Arc::clone(store), path).await?;
        row(address, &seconds(begun), answer.bytes);
        answers.push(answer);
    }
    let balanced = Arc::new(Balanced::new(mirrors, &BalancedOptions::default())?);
    let begun = Instant::now();
    let answer = query(Arc::clone(&balanced) as Arc<dyn ObjectStore>, path).await?;
    let reports = balanced.reports();
    row("balanced", &seconds(begun), reports.iter().map(|report| report.bytes).sum());
    for report in reports {
        row(&format!("  {}", report.name), "", report.bytes);
    }
    ensure!(answers.iter().all(|other| *other == answer), "the answers differ");
    println!("\nAll answers are the same:\nzone    rides         km     revenue");
    for (zone, sums) in answer.zones {
        let (km, revenue) = (sums.metres as f64 / 1e3, sums.cents as f64 / 1e2);
        println!("{zone:4} {:8} {km:10.0} {revenue:11.2}", sums.rides);
    }
    Ok(())
}

fn mirror(address: &str) -> Result<Arc<dyn ObjectStore>> {
    // The usual limit of 30 s is for a whole answer, which a slow mirror may exceed while it makes progress.
    let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
    Ok(Arc::new(HttpBuilder::new().with_url(address).with_client_options(options).build()?))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    zones: BTreeMap<i32, Sums>,
    /// What the columns of the query take in the file.
    bytes: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    rides: u64,
    metres: i64,
    cents: i64,
}

/// `SELECT zone, count(*), sum(metres), sum(cents) FROM rides GROUP BY zone`, on several row groups at once.
#[expect(deprecated)]
async fn query(store: Arc<dyn ObjectStore>, path: &Path) -> Result<Answer> {
    let mut reader = ParquetObjectReader::new(store, path.clone());
    let metadata = ArrowReaderMetadata::load_async(&mut reader, ArrowReaderOptions::new()).await?;
    let file = metadata.metadata();
    let columns = ProjectionMask::columns(metadata.parquet_schema(), ["zone", "metres", "cents"]);
    let chunks = file.row_groups().iter().flat_map(|group| group.columns().iter().enumerate());
    let wanted = chunks.filter(|(column, _)| columns.leaf_included(*column));
    let mut answer =
        Answer { bytes: wanted.map(|(_, chunk)| chunk.byte_range().1).sum(), ..Answer::default() };
    let groups = (0..file.num_row_groups()).map(|number| {
        let rows = ParquetRecordBatchStreamBuilder::new_with_metadata(reader.clone(), metadata.clone())
            .with_row_groups(vec![number])
            .with_projection(columns.clone())
            .build();
        async move { rows?.try_collect::<Vec<_>>().await }
    });
    let mut groups = stream::iter(groups).buffer_unordered(N_AT_ONCE);
    while let Some(batches) = groups.try_next().await? {
        batches.iter().for_each(|batch| answer.add(batch));
    }
    Ok(answer)
}

impl Answer {
    fn add(&mut self, batch: &RecordBatch) {
        let zones = batch["zone"].as_primitive::<Int32Type>();
        let (metres, cents) =
            (batch["metres"].as_primitive::<Int64Type>(), batch["cents"].as_primitive::<Int64Type>());
        for ((zone, metres), cents) in zones.values().iter().zip(metres.values()).zip(cents.values()) {
            let sums = self.zones.entry(*zone).or_default();
            sums.rides += 1;
            sums.metres += metres;
            sums.cents += cents;
        }
    }
}
