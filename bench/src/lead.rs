//! Who leads, with the fewest changes: against an exact minimum-cost flow, and against Ceph's own balancer.

use anyhow::{Context, Result, ensure};
use evenkeel::bound::Cost;
use evenkeel::check;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::lead::{Changed, Lead, Target, Wish, ceph_read, fewest, today};
use evenkeel::model::{Batch, BatchBuilder, Cluster, Details, Ratio, Server, Speed};

use crate::Race;
use crate::batches::count;
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    large(race, report)?;
    maps(race, report)
}

/// Groups in three pools, each with three replicas drawn at random of which the first leads, as CRUSH would have it.
fn groups(n_groups: u32, n_servers: u32, draw: &mut Seeded) -> Result<Batch> {
    let names: Vec<String> = (0..n_servers).map(|osd| format!("osd.{osd}")).collect();
    let mut batch = BatchBuilder::new();
    for group in 0..n_groups {
        let mut set: Vec<u32> = Vec::new();
        while set.len() < 3 {
            let osd = draw.below(n_servers);
            if !set.contains(&osd) {
                set.push(osd);
            }
        }
        for &osd in &set {
            batch.replica(&names[osd as usize])?;
        }
        let current = Some(names[set[0] as usize].as_str());
        let pool = ["rbd", "data", "index"][group as usize % 3];
        batch.end_request_of_bytes(pool, 1, &Details { current, ..Details::default() })?;
    }
    Ok(batch.finish())
}

/// Servers of five speeds.
fn five_speeds(batch: &Batch, draw: &mut Seeded) -> Result<Cluster> {
    let server = |_| {
        let millionths = [1_000_000, 800_000, 500_000, 250_000, 100_000][draw.below(5) as usize];
        let speed = Speed::from_millionths(millionths).context("no such speed")?;
        Ok(Server { speed, ..Server::default() })
    };
    let servers = (0..batch.n_servers()).map(server).collect::<Result<_>>()?;
    Ok(Cluster::new(batch, servers, Cluster::equal(batch).clients().to_vec(), None)?)
}

/// The optimum with the fewest changes, which the prices must prove.
fn proved(batch: &Batch, cluster: &Cluster) -> Result<Lead> {
    let lead = fewest(batch, cluster, &Wish::default());
    let least = check::cost(batch, cluster, lead.target, &lead.prices, Cost::Changes);
    ensure!(least == lead.changed.requests, "{} changes, of which {least} are proved", lead.changed.requests);
    ensure!(lead.level == lead.bound.value, "level {}, bound {}", lead.level, lead.bound.value);
    Ok(lead)
}

fn large(race: &Race, report: &mut Report) -> Result<()> {
    let (n_groups, n_servers) = if race.args.quick { (5_000, 250) } else { (100_000, 5_000) };
    let columns =
        ["groups", "today ÷ bound", "changes", "ms", "OR-tools min-cost flow ms", "× min-cost flow"];
    let mut table = Table::new("Who leads, with the fewest changes", &columns);
    for speeds in ["equal", "five-speeds"] {
        let name = format!("lead-{}-{}-{speeds}", count(n_groups), count(n_servers));
        if !race.has(&name) {
            continue;
        }
        let mut draw = Seeded::new(1);
        let batch = groups(n_groups, n_servers, &mut draw)?;
        let cluster = match speeds {
            "equal" => Cluster::equal(&batch),
            _ => five_speeds(&batch, &mut draw)?,
        };
        let lead = proved(&batch, &cluster)?;
        race.peer.load_batch(&batch)?;
        let caps: Vec<u64> = cluster.servers().iter().map(|server| room(server, lead.level)).collect();
        let mut changes = 0;
        let [ours, ortools] = in_turn(
            race.args.repeat,
            [
                Contestant::new(|| Ok(cpu_s(|| fewest(&batch, &cluster, &Wish::default())))),
                Contestant::new(|| {
                    race.peer.ortools_changes(caps.as_slice()).map(|answer| answer.keep(&mut changes))
                }),
            ],
        )?;
        report.agree(&name, "the fewest changes", changes, lead.changed.requests);
        let ratio = ortools.ratio_to(&ours);
        report.measured(Goal::Lead, &name, ratio);
        report.measured(Goal::LeadSeconds, &name, ours.min_s());
        table.row([
            Cell::text(name),
            Cell::Number(today(&batch, &cluster).over(lead.bound.value)),
            Cell::Count(lead.changed.requests),
            Cell::Time(ours),
            Cell::Time(ortools),
            Cell::Ratio(ratio),
        ]);
    }
    report.table(table);
    Ok(())
}

/// How many groups a server can lead at a level.
fn room(server: &Server, level: Ratio) -> u64 {
    let blocks = level.numerator() * u128::from(server.speed.millionths());
    (blocks / (u128::from(level.denominator()) * 1_000_000)) as u64
}

/// Generated maps of all sizes: the maximum and the changes of Ceph's balancer, and ours for its maximum and for the best.
fn maps(race: &Race, report: &mut Report) -> Result<()> {
    let n_maps: u32 = if race.args.quick { 50 } else { 1000 };
    let name = format!("lead-maps-{n_maps}");
    if !race.has(&name) {
        return Ok(());
    }
    let columns = [
        "servers",
        "maps",
        "pools",
        "today ÷ bound",
        "ceph-read ÷ bound",
        "its changes",
        "ours for that",
        "ours for the best",
    ];
    let mut table = Table::new("Ceph's read balancer on generated maps, sums and means", &columns);
    let mut draw = Seeded::new(2);
    let (mut above, mut more) = (0, 0);
    for (speeds, sizes) in [("equal", [6, 24, 96]), ("five speeds", [6, 24, 96])] {
        for n_servers in sizes {
            let mut sums = [0.0; 2];
            let mut changes = [0; 3];
            let n = n_maps / 6 + u32::from(n_servers == 6 && speeds == "equal") * (n_maps % 6);
            for _ in 0..n {
                let n_groups = n_servers * (5 + draw.below(30));
                let batch = groups(n_groups, n_servers, &mut draw)?;
                let cluster = match speeds {
                    "equal" => Cluster::equal(&batch),
                    _ => five_speeds(&batch, &mut draw)?,
                };
                let theirs = ceph_read::select(&batch);
                let their_level = theirs.last_done(&batch, &cluster);
                let their_changes = Changed::between(&batch, &theirs.servers).requests;
                let best = proved(&batch, &cluster)?;
                let wish =
                    Wish { target: Target::Within(their_level.over(best.bound.value)), cost: Cost::Changes };
                let same = fewest(&batch, &cluster, &wish);
                above += u64::from(best.level > their_level || same.level > their_level);
                more += u64::from(same.changed.requests > their_changes);
                sums[0] += today(&batch, &cluster).over(best.bound.value);
                sums[1] += their_level.over(best.bound.value);
                let counts = [their_changes, same.changed.requests, best.changed.requests];
                changes.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let [today, theirs] = sums.map(|sum| Cell::Number((sum / f64::from(n) * 1e3).round() / 1e3));
            let [their_changes, same, best] = changes.map(Cell::Count);
            let servers = Cell::text(format!("{n_servers}, {speeds}"));
            let n_maps = Cell::Count(n.into());
            table.row([servers, n_maps, Cell::Count(3), today, theirs, their_changes, same, best]);
        }
    }
    report.agree(&name, "maps where Ceph's maximum is lower", 0, above);
    report.agree(&name, "maps where Ceph needs fewer changes for its maximum", 0, more);
    report.table(table);
    Ok(())
}
