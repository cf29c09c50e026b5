//! What `ceph` and `osdmaptool` may print, for fuzzing: an error or an answer, never a panic.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::{Look, is_sound};
use super::answers::{self, Balancer, Features, OsdDump, Setting, Tree, parse};
use super::{Access, Options, Weigh, caution, groups};

/// The map, the groups and other answers, separated by zeros. Returns whether what passes fits together.
pub fn answers(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (osds, placed, other) = (parse::<OsdDump>("map", next()), answers::groups("groups", next()), next());
    answers::crush_sets(&String::from_utf8_lossy(other));
    let tree = parse::<Tree>("tree", other).unwrap_or_default();
    let features = parse::<Features>("features", other).unwrap_or_default();
    let settings = parse::<Vec<Setting>>("settings", other).unwrap_or_default();
    let (Ok(osds), Ok(placed)) = (osds, placed) else { return true };
    let (pools, class_speeds) = (Vec::new(), BTreeMap::new());
    let options = Options {
        access: Access::Files(Vec::new()),
        pools,
        weigh: Weigh::Bytes,
        over: Duration::ZERO,
        class_speeds,
        despite_balancer: false,
    };
    let balancer = parse::<Balancer>("balancer", other).ok();
    let mut look = Look {
        servers: groups::members(&osds, &tree, &options.class_speeds),
        refusals: caution::refusals(&osds, balancer.as_ref(), &features, false),
        remarks: caution::remarks(&settings, &tree, &options.class_speeds),
        ..Look::default()
    };
    groups::add_groups(&mut look, &osds, placed, &options, &HashMap::new()).is_err() || is_sound(&look)
}
