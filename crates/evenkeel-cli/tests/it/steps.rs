//! The plan by time and bytes: its ranges are added up again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{assert_refused, folder_with, printed};

/// The rows of a table, without its header.
fn rows(at: &Path, header: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(at).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(first, header);
    rest.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Plans `batch` and compares the steps with the plan and with the sizes of the requests. The number of requests in several
/// steps.
fn check_steps(folder: &Path, block: u64, extra: &[&str], speeds: &BTreeMap<String, f64>) -> usize {
    let block_text = block.to_string();
    let args = ["plan", "batch", "--block", &block_text, "--out", "plan.csv", "--steps", "steps.csv"];
    printed(&[&args[..], extra].concat(), folder);
    let batch = rows(&folder.join("batch"), "client,bytes,replicas");
    let steps = rows(&folder.join("steps.csv"), "start,end,client,server,request,chunk,offset,bytes");
    let starts: Vec<f64> = steps.iter().map(|row| number(&row[0])).collect();
    assert!(starts.is_sorted());

    let mut ranges: Vec<Vec<(u64, u64)>> = vec![Vec::new(); batch.len()];
    let mut bytes_of: BTreeMap<[&str; 4], u64> = BTreeMap::new();
    for step in &steps {
        let (request, offset, bytes): (usize, u64, u64) =
            (number(&step[4]), number(&step[6]), number(&step[7]));
        ranges[request].push((offset, bytes));
        *bytes_of.entry([&step[4], &step[2], &step[3], &step[0]]).or_default() += bytes;
    }
    for (row, ranges) in batch.iter().zip(&mut ranges) {
        ranges.sort_unstable();
        let mut covered = 0;
        for &(offset, bytes) in ranges.iter() {
            assert_eq!(offset, covered, "no gap, no overlap: {row:?} {ranges:?}");
            covered += bytes;
        }
        assert_eq!(covered, number::<u64>(&row[1]), "{row:?} {ranges:?}");
        assert!(ranges.iter().all(|range| range.1 > 0) || covered == 0, "{ranges:?}");
    }
    let plan = rows(&folder.join("plan.csv"), "request,client,server,start,blocks");
    for transfer in &plan {
        let key = [&transfer[0], &transfer[1], &transfer[2], &transfer[3]].map(String::as_str);
        let bytes = bytes_of.remove(&key).unwrap_or(0) as f64;
        let planned = number::<f64>(&transfer[4]) * block as f64;
        // As many as planned, but for a last block that is not full.
        assert!(bytes < planned + 1.0 && bytes > planned - block as f64 - 1.0, "{transfer:?} {bytes}");
    }
    assert!(bytes_of.is_empty() && plan.len() >= steps.len(), "every step is in the plan: {bytes_of:?}");
    for step in &steps {
        let (start, end, bytes): (f64, f64, f64) = (number(&step[0]), number(&step[1]), number(&step[7]));
        let speed = speeds.get(&step[3]).copied().unwrap_or(1.0);
        assert!(
            (end - start) * speed * block as f64 > bytes - 1.0 - 1e-6 * bytes,
            "there is time for it: {step:?}"
        );
    }
    ranges.iter().filter(|ranges| ranges.len() > 1).count()
}

#[test]
fn ranges_cover_every_request_exactly() {
    let mut n_split = 0;
    for (seed, law, servers) in [
        ("1", "geometric", "--speeds 1"),
        ("2", "zipf", "--speeds 1..7"),
        ("3", "geometric", "--speeds 1..3 --slots 1..3 --backlogs 0..999"),
    ] {
        let folder = folder_with(&[]);
        let at = folder.path();
        let generate = format!(
            "generate --requests 60 --servers 7 --clients 5 --copies 3 --law {law} --bytes 0..1000 --seed {seed} --out batch \
             --servers-out servers {servers}"
        );
        printed(&generate.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>(), at);
        let speeds: BTreeMap<String, f64> = rows(&at.join("servers"), "server,speed,slots,backlog")
            .iter()
            .map(|row| (row[0].clone(), number(&row[1])))
            .collect();
        for block in [1, 7, 64, 2000] {
            println!("{generate} in blocks of {block}"); // shown when the test fails
            n_split += check_steps(at, block, &["--servers", "servers"], &speeds);
            n_split += check_steps(at, block, &["--policy", "hdlwf"], &BTreeMap::new());
            check_steps(at, block, &["--whole"], &BTreeMap::new());
        }
    }
    assert!(n_split > 50, "{n_split}");
}

#[test]
fn chunks_are_named_and_times_are_seconds() {
    let folder = folder_with(&[
        ("batch", "client,bytes,replicas,chunk\nc0,3MB,s0,\"a,b\"\nc1,1MB,s0,\n"),
        ("servers", "server,rate\ns0,2MB/s\n"),
    ]);
    let args = ["plan", "batch", "--servers", "servers", "--block", "1MB", "--steps", "-", "--order", "hdf"];
    let steps = printed(&args, folder.path());
    let expected = "start,end,client,server,request,chunk,offset,bytes\n\
        0,1.5,c0,s0,0,\"a,b\",0,3000000\n\
        1.5,2,c1,s0,1,,0,1000000\n";
    assert_eq!(steps, expected);
}

#[test]
fn without_an_order_there_are_no_steps() {
    let batch: [(&str, &[u8]); 1] = [("batch", b"client,bytes,replicas\nc0,1,s0\n")];
    let folder = folder_with(&[("batch", "client,bytes,replicas\nc0,1,s0\n")]);
    let output = super::evenkeel(&["plan", "batch", "--no-order", "--steps", "x"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(super::stderr(&output).contains("cannot be used with"), "{}", super::stderr(&output));
    assert_refused(
        &batch,
        &["plan", "batch", "--out", "x", "--steps", "./x"],
        &["--out and --steps", "same file"],
    );
    assert_refused(&batch, &["plan", "batch", "--steps", "batch"], &["an input of this command"]);
}
