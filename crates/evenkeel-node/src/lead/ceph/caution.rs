//! What speaks against changing a cluster, and what its operators should know.

use std::collections::{BTreeMap, HashSet};

use super::answers::{Balancer, Connected, Features, OsdDump, Setting, Tree};

/// Releases have names in alphabetical order. What is no name of a release (Ceph says `unknown` where nothing is set)
/// counts as older than all.
pub(super) fn release(name: &str) -> u8 {
    let first = name.bytes().next().unwrap_or_default().to_ascii_lowercase();
    let is_one = first.is_ascii_alphabetic() && !["unknown", "unspecified"].contains(&name);
    if is_one { first } else { 0 }
}

/// Why nothing may be changed now, and what it would take.
pub(super) fn refusals(
    osds: &OsdDump,
    balancer: Option<&Balancer>,
    features: &Features,
    despite_balancer: bool,
) -> Vec<String> {
    let mut refusals = Vec::new();
    let release_of_osds = release(&osds.require_osd_release);
    let is_primary = release_of_osds >= release("reef");
    let (needed, entry) = if is_primary { ("reef", "pg-upmap-primary") } else { ("luminous", "pg-upmap") };
    if release_of_osds < release("luminous") {
        refusals
            .push("the cluster's OSDs are older than Luminous, which cannot be told who leads".to_owned());
        return refusals;
    }
    if release(&osds.require_min_compat_client) < release(needed) {
        let now = &osds.require_min_compat_client;
        let now = if now.is_empty() { "not set" } else { now };
        refusals.push(format!(
            "{entry} needs clients of {needed} or later, and the cluster admits older ones \
             (require-min-compat-client is {now}). If all clients are new enough (see `ceph features`), run \
             `ceph osd set-require-min-compat-client {needed}`; older clients lose access then"
        ));
    }
    let is_old = |client: &&Connected| release(&client.release) < release(needed);
    let old: Vec<&Connected> = features.client.iter().filter(is_old).collect();
    let n: u64 = old.iter().map(|client| client.num).sum();
    if let Some(oldest) = old.iter().min_by_key(|client| release(&client.release)) {
        refusals.push(format!(
            "{n} connected clients are older than {needed} (the oldest by features: {}) and could not read such a map; \
             update or disconnect them first (see `ceph features`)",
            oldest.release
        ));
    }
    let interferes = |balancer: &&Balancer| match &*balancer.mode {
        "read" | "upmap-read" => balancer.active,
        "upmap" => balancer.active && !is_primary,
        _ => false,
    };
    if balancer.is_none() && !despite_balancer {
        refusals.push(
            "Ceph's own balancer does not answer, so whether it would undo such changes is not known; see \
             `ceph balancer status`, or say --despite-balancer"
                .to_owned(),
        );
    }
    if let Some(balancer) = balancer.filter(interferes).filter(|_| !despite_balancer) {
        refusals.push(format!(
            "Ceph's own balancer is active in mode {}, which may undo such changes; run `ceph balancer off`, or say \
             --despite-balancer",
            balancer.mode
        ));
    }
    refusals
}

pub(super) fn remarks(
    settings: &[Setting],
    tree: &Tree,
    class_speeds: &BTreeMap<String, f64>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    for setting in settings {
        let reads_replicas =
            ["rbd_read_from_replica_policy", "rados_replica_read_policy"].contains(&&*setting.name);
        if reads_replicas && setting.value != "default" {
            remarks.push(format!(
                "{} has {} = {}: its clients read from replicas too, so that primaries matter less to them",
                setting.section, setting.name, setting.value
            ));
        }
    }
    let classes: HashSet<&String> = tree.nodes.iter().filter_map(|node| node.device_class.as_ref()).collect();
    if classes.len() > 1 && class_speeds.is_empty() {
        let mut classes: Vec<&str> = classes.into_iter().map(String::as_str).collect();
        classes.sort_unstable();
        remarks.push(format!(
            "OSDs of classes {} count as equally fast; tell their speeds by --class-speed, or measure them by \
             `evenkeel probe ceph`",
            classes.join(", ")
        ));
    }
    remarks
}
