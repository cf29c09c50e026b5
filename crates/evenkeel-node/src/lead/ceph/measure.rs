//! How fast OSDs send: a few timed reads of objects that each of them leads.
//!
//! An OSD's own counters see neither its network nor what clients see of its disk. Objects are read by `rados`, in small
//! parts; the time counts from the first part on, so that starting the command does not.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use super::super::{EngineError, Group, Look};
use super::access::Client;
use crate::Measurement;

/// How long each OSD is read from.
pub const WINDOW: Duration = Duration::from_secs(3);
/// A brief measurement ends after this time of reading.
pub(super) const BRIEF: Duration = Duration::from_millis(500);
/// What is asked for at once.
pub const PART_BYTES: u64 = 256 << 10;
/// OSDs that are read from at the same time.
const AT_ONCE: usize = 8;
/// Objects of a group that are tried.
const MOST_OBJECTS: usize = 16;
/// Names are short; a longer line is no list of objects.
const MOST_LIST_BYTES: u64 = 64 << 10;

/// Measures each OSD that leads an object of some size, by reading for `enough` time or until the window is over.
pub(super) async fn measure(
    client: &Client,
    look: &Look,
    enough: Duration,
) -> Result<Vec<Measurement>, EngineError> {
    // Most bytes first: small objects tell little.
    let mut groups: Vec<Vec<&Group>> = vec![Vec::new(); look.servers.len()];
    for group in look.groups.iter().filter(|group| !group.eligible.is_empty()) {
        if let Some(of_leader) = group.leader.and_then(|leader| groups.get_mut(leader as usize)) {
            of_leader.push(group);
        }
    }
    let mut measured = Vec::new();
    for (mut groups, member) in groups.into_iter().zip(&look.servers) {
        groups.sort_by_key(|group| std::cmp::Reverse(group.weight));
        measured.push(read(client, &member.name, groups, enough));
    }
    futures_util::stream::iter(measured).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
}

/// Reads objects of the groups that an OSD leads.
async fn read(
    client: &Client,
    name: &str,
    groups: Vec<&Group>,
    enough: Duration,
) -> Result<Measurement, EngineError> {
    let name = name.to_owned();
    let is_enough = |bytes: u64, seconds: f64| bytes > 0 && seconds >= enough.as_secs_f64();
    let end = Instant::now() + WINDOW;
    let (mut bytes, mut seconds) = (0, 0.0);
    let mut has_begun = false;
    'read: for group in groups {
        for object in objects(client, group).await? {
            if Instant::now() >= end || is_enough(bytes, seconds) {
                break 'read;
            }
            has_begun = true;
            let mut command = client.command("rados");
            command.args(["-p", &group.pool, "-b", &PART_BYTES.to_string()]);
            let is_enough = |read: u64, took: f64| is_enough(bytes + read, seconds + took);
            let (read, took) = timed(command.args(["get", &object, "-"]), end, is_enough).await?;
            bytes += read;
            seconds += took;
        }
        if Instant::now() >= end {
            break;
        }
    }
    if bytes > 0 && seconds > 0.0 {
        let rate = Some(((bytes as f64 / seconds) as u64).max(1));
        return Ok(Measurement { name, rate, bytes, error: None });
    }
    if has_begun && Instant::now() >= end {
        // Not even two parts of one: it is slower than that.
        let error = format!("{name} is slower than that: it sent nothing in {} s", WINDOW.as_secs());
        return Ok(Measurement {
            name,
            rate: Some(PART_BYTES / WINDOW.as_secs()),
            bytes,
            error: Some(error),
        });
    }
    let error = Some(format!("{name} leads no object that is large enough to be timed"));
    Ok(Measurement { name, rate: None, bytes, error })
}

/// What a command prints after its first part, and how long that takes.
async fn timed(
    command: &mut Command,
    end: Instant,
    is_enough: impl Fn(u64, f64) -> bool,
) -> Result<(u64, f64), EngineError> {
    let failed = |error: std::io::Error| EngineError(format!("cannot read by `rados`: {error}"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().map_err(failed)?;
    let Some(mut stdout) = child.stdout.take() else { return Ok((0, 0.0)) };
    let mut buffer = vec![0; 64 << 10];
    let (mut n_bytes, mut first_part, mut last) = (0, None, Instant::now());
    loop {
        let read = tokio::time::timeout_at(end.into(), stdout.read(&mut buffer)).await;
        let Ok(read) = read else {
            last = Instant::now();
            break;
        };
        match read.map_err(failed)? {
            0 => break,
            n => n_bytes += n as u64,
        }
        last = Instant::now();
        if n_bytes >= PART_BYTES {
            let (since, before) = *first_part.get_or_insert((last, n_bytes));
            if is_enough(n_bytes - before, (last - since).as_secs_f64()) {
                break;
            }
        }
    }
    let _ = child.kill().await;
    Ok(first_part.map_or((0, 0.0), |(since, before)| (n_bytes - before, (last - since).as_secs_f64())))
}

/// A few objects of a group, of the default namespace: of others `rados` lists none by group.
async fn objects(client: &Client, group: &Group) -> Result<Vec<String>, EngineError> {
    let mut command = client.command("rados");
    command.args(["--pgid", &group.name, "ls"]).stderr(std::process::Stdio::null());
    let failed = |error| EngineError(format!("cannot list group {} by `rados`: {error}", group.name));
    let mut child = command.spawn().map_err(failed)?;
    let Some(stdout) = child.stdout.take() else { return Ok(Vec::new()) };
    let listed = async {
        let mut lines = BufReader::new(stdout.take(MOST_LIST_BYTES)).lines();
        let mut objects = Vec::new();
        while let Some(line) = lines.next_line().await? {
            // One with a locator of its own cannot be read by its name alone.
            if !line.contains('\t') {
                objects.push(line);
            }
            if objects.len() >= MOST_OBJECTS {
                break;
            }
        }
        Ok(objects)
    };
    let objects = tokio::time::timeout(client.patience, listed).await;
    let _ = child.kill().await;
    objects.unwrap_or_else(|_| Ok(Vec::new())).map_err(failed)
}
