//! A cluster's OSDs and placement groups, as a look has them.

use std::collections::{BTreeMap, HashMap};

use super::super::{EngineError, Group, Look, Member};
use super::answers::{OsdDump, Pg, Tree};
use super::{Options, Weigh};

/// The OSDs, by their numbers.
pub(super) fn members(osds: &OsdDump, tree: &Tree, class_speeds: &BTreeMap<String, f64>) -> Vec<Member> {
    let classes: HashMap<i64, &String> =
        tree.nodes.iter().filter_map(|node| Some((node.id, node.device_class.as_ref()?))).collect();
    let mut members: Vec<(u32, Member)> = Vec::new();
    for osd in &osds.osds {
        let class_speed = classes.get(&i64::from(osd.id)).and_then(|class| class_speeds.get(*class));
        let affinity = (osd.primary_affinity < 1.0).then_some(osd.primary_affinity);
        let barred = match () {
            () if osd.up == 0 => Some("it is down"),
            () if osd.is_in == 0 || osd.weight <= 0.0 => Some("it is out"),
            () if affinity.is_some_and(|affinity| affinity <= 0.0) => Some("its primary affinity is 0"),
            () => None,
        };
        let speed = match (class_speed, affinity) {
            (Some(speed), Some(affinity)) => Some(speed * affinity),
            (speed, affinity) => speed.copied().or(affinity),
        };
        let name = format!("osd.{}", osd.id);
        members.push((osd.id, Member { name, speed, barred: barred.map(str::to_owned) }));
    }
    members.sort_by_key(|(number, _)| *number);
    members.into_iter().map(|(_, member)| member).collect()
}

/// Adds groups by pool and number, those that are left alone with the reason.
pub(super) fn add_groups(
    look: &mut Look,
    osds: &OsdDump,
    groups: Vec<Pg>,
    options: &Options,
    read: &HashMap<String, u64>,
) -> Result<(), EngineError> {
    let names: HashMap<u64, (&str, u32)> =
        osds.pools.iter().map(|pool| (pool.id, (&*pool.name, pool.kind))).collect();
    if let Some(unknown) = options.pools.iter().find(|pool| !names.values().any(|(name, _)| name == pool)) {
        let mut names: Vec<&str> = osds.pools.iter().map(|pool| &*pool.name).collect();
        names.sort_unstable();
        return Err(EngineError(format!("there is no pool `{unknown}`; the pools are {}", names.join(", "))));
    }
    let mut numbers: Vec<&u32> = osds.osds.iter().map(|osd| &osd.id).collect();
    numbers.sort_unstable();
    let position = |osd: i64| {
        let osd = u32::try_from(osd).ok()?;
        numbers.binary_search(&&osd).ok().map(|position| position as u32)
    };
    let affinity: HashMap<u32, f64> = osds.osds.iter().map(|osd| (osd.id, osd.primary_affinity)).collect();
    let mut alone: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut found: Vec<((u64, u64), Group)> = Vec::new();
    for pg in groups {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let id = pg.pool().zip(pg.pgid.split_once('.').and_then(|(_, seed)| number(seed)));
        let id = id.ok_or_else(|| EngineError(format!("`{}` is no placement group", pg.pgid)))?;
        let Some(&(pool, kind)) = names.get(&id.0) else {
            *alone.entry((format!("pool {}", id.0), "in a pool that is gone".to_owned())).or_default() += 1;
            continue;
        };
        if !options.pools.is_empty() && !options.pools.iter().any(|wanted| wanted == pool) {
            continue;
        }
        let pool_name = format!("pool {pool}");
        if kind != 1 {
            let reason = "erasure-coded: their OSDs have places that must not change";
            *alone.entry((pool_name, reason.to_owned())).or_default() += 1;
            continue;
        }
        let members: Option<Vec<u32>> = pg.acting.iter().map(|&osd| position(osd)).collect();
        let leader = position(pg.acting_primary);
        let members = members.filter(|_| pg.is_clean());
        if members.is_none() {
            *alone.entry((pool_name, format!("not clean ({})", pg.state))).or_default() += 1;
        }
        let may_lead = |server: &u32| {
            let is_barred = look.servers[*server as usize].barred.is_some();
            // Where affinity is below 1, the map draws lots among groups; those that it has drawn may stay.
            let is_sure = affinity.get(numbers[*server as usize]).is_none_or(|&affinity| affinity >= 1.0);
            !is_barred && (is_sure || leader == Some(*server))
        };
        let eligible = members.iter().flatten().copied().filter(may_lead).collect();
        let weight = match (options.weigh, pg.stat_sum) {
            (Weigh::Count, _) => 1,
            (Weigh::Bytes, Some(sum)) => sum.num_bytes,
            (Weigh::Reads, _) => read.get(&pg.pgid).copied().unwrap_or(0),
            (Weigh::Bytes, None) => {
                return Err(EngineError(
                    "the groups' statistics are missing; dump them by `ceph pg dump pgs -f json`".to_owned(),
                ));
            }
        };
        let known = pg.acting.iter().filter_map(|&osd| position(osd)).collect();
        let members = members.unwrap_or(known);
        found.push((id, Group { name: pg.pgid, pool: pool.to_owned(), weight, members, leader, eligible }));
    }
    found.sort_by_key(|(id, _)| *id);
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(EngineError(format!("group {} is listed twice; dump the groups again", pair[0].1.name)));
    }
    look.groups = found.into_iter().map(|(_, group)| group).collect();
    look.left_alone = alone
        .into_iter()
        .map(|((pool, reason), n)| match n {
            1 => format!("{pool}: 1 group is {reason}"),
            _ => format!("{pool}: {n} groups are {reason}"),
        })
        .collect();
    Ok(())
}
