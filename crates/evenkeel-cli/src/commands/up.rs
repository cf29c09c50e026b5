//! `evenkeel up`: a cluster of nodes on this machine.

use std::fmt::Write as _;

use anyhow::Result;
use evenkeel_node::node::up::{Up, UpSettings, bytes_per_second};
use evenkeel_node::node::{signalled, tell_systemd};
use serde_json::json;

use super::node::{PATIENCE, open, upkeep};
use super::{Outcome, live};
use crate::cli::UpArgs;
use crate::output::print;
use crate::text::{counted, size};

pub(super) fn run(args: &UpArgs) -> Result<Outcome> {
    let settings = UpSettings {
        nodes: args.nodes,
        folder: args.data.clone(),
        port: args.port,
        speeds: args.speeds.iter().cloned().collect(),
        slots: args.slots,
        upkeep: upkeep(args.maintain),
        logs: args.log.is_some(),
    };
    live::runtime()?.block_on(async {
        let up = Up::start(&settings, open)?;
        print(&if args.json { line(&up) } else { told(&up) })?;
        tell_systemd("READY=1");
        signalled().await;
        tell_systemd("STOPPING=1");
        up.stop(PATIENCE).await;
        Ok(Outcome::Done)
    })
}

/// What programs read.
fn line(up: &Up) -> String {
    let endpoints: Vec<&str> = up.servers().iter().map(|server| server.endpoint.as_str()).collect();
    let keys = up.keys();
    let line = json!({
        "format": 1,
        "endpoints": endpoints,
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "cluster": up.cluster().display().to_string(),
    });
    format!("{line}\n")
}

/// What people read.
fn told(up: &Up) -> String {
    let mut text = format!("{} run:\n", counted(up.servers().len() as u64, "node"));
    for server in up.servers() {
        let limit = bytes_per_second(server.speed_millionths);
        let limit = limit.map(|rate| format!("   at most {}/s", size(rate as f64))).unwrap_or_default();
        let _ = writeln!(text, "  {:4} {}{limit}", server.name, server.endpoint);
    }
    let first = up.servers().first().map(|server| server.endpoint.as_str()).unwrap_or_default();
    let keys = up.keys();
    let _ = write!(
        text,
        "\nIn Python:\n  import boto3; s3 = boto3.client(\"s3\", endpoint_url=\"{first}\", region_name=\"us-east-1\", \
         aws_access_key_id=\"{}\", aws_secret_access_key=\"{}\")\n\nWith this command:\n  export \
         EVENKEEL_CLUSTER={}\n\nCtrl-C stops them; the same command starts them again.\n",
        keys.access_key,
        keys.secret_key,
        up.cluster().display()
    );
    text
}
