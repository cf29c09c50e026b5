//! Looks again and again, and changes who leads when it is worth it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel::lead::watch::{Decision, Watch};
use evenkeel::lead::{Target, Wish};
use evenkeel::model::{Server, Speed};

use super::{Engine, EngineError, Look, Record, carry_out, plan};

/// How a store is watched.
#[derive(Debug)]
pub struct Watching {
    /// When changes are made.
    pub watch: Watch,
    /// The time between looks.
    pub every: Duration,
    /// Whether servers are measured at each look.
    pub measures: bool,
    /// How many groups change at once.
    pub step: usize,
    /// Changes are made, and kept here; without it they are only told.
    pub record: Option<Record>,
    /// What is wanted of plans.
    pub wish: Wish,
    /// Ends after so many looks, if at all.
    pub looks: Option<u64>,
}

/// What was seen, decided and done at one look.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Seconds since watching began.
    pub seconds: f64,
    /// The store at this time, before any change.
    pub look: &'a Look,
    /// What servers sent, in bytes a second, if they were measured.
    pub rates: &'a [Option<u64>],
    /// Their speeds compared with what is usual for them.
    pub factors: &'a [f64],
    /// The busiest server divided by the bound, today and as planned.
    pub today: f64,
    /// As planned.
    pub planned: f64,
    /// Changes that a plan would take.
    pub n_planned: u64,
    /// What was decided.
    pub decision: Decision,
    /// Changes that were made.
    pub n_made: u64,
}

/// Watches until all looks are taken; for ever if their number is not given. An error is told, and does not end it.
///
/// `speeds` gives the usual servers of a look, and takes out those that must not lead.
pub async fn watch(
    engine: &mut dyn Engine,
    watching: &mut Watching,
    mut speeds: impl FnMut(&mut Look) -> Result<Vec<Server>, EngineError>,
    mut told: impl FnMut(Result<Seen<'_>, EngineError>),
) {
    let start = Instant::now();
    let mut n_looks = 0;
    while watching.looks.is_none_or(|looks| n_looks < looks) {
        let next = Instant::now() + watching.every;
        if let Err(error) = once(engine, watching, start, &mut speeds, &mut told).await {
            told(Err(error));
        }
        n_looks += 1;
        tokio::time::sleep_until(next.into()).await;
    }
}

async fn once(
    engine: &mut dyn Engine,
    watching: &mut Watching,
    start: Instant,
    speeds: &mut impl FnMut(&mut Look) -> Result<Vec<Server>, EngineError>,
    told: &mut impl FnMut(Result<Seen<'_>, EngineError>),
) -> Result<(), EngineError> {
    let seen = engine.look().await?;
    let mut look = seen.clone();
    let mut servers = speeds(&mut look)?;
    let measured = if watching.measures { engine.measure_briefly(&seen).await? } else { Vec::new() };
    let rates: Vec<Option<u64>> = measured.iter().map(|server| server.rate).collect();
    let of_speed_1 = rates.iter().zip(&look.servers).zip(&servers).map(|((rate, member), server)| {
        let speed = server.speed.millionths() as f64 / 1e6;
        (&*member.name, rate.map(|rate| rate as f64 / speed))
    });
    watching.watch.measured(of_speed_1);
    let factors: Vec<f64> = look.servers.iter().map(|member| watching.watch.factor(&member.name)).collect();
    for (server, factor) in servers.iter_mut().zip(&factors) {
        let millionths = (server.speed.millionths() as f64 * factor) as u64;
        server.speed = Speed::from_millionths(millionths.max(1)).unwrap_or(server.speed);
    }
    if watching.measures {
        keep_one_each(&mut look);
    }
    let mut planned = plan(&look, servers.clone(), Vec::new(), &watching.wish)?;
    let (today, n_planned) = (planned.today, planned.lead.changed.requests);
    let gain = today.over(planned.lead.level);
    let mut seen_now = Seen {
        seconds: start.elapsed().as_secs_f64(),
        look: &seen,
        rates: &rates,
        factors: &factors,
        today: today.over(planned.lead.bound.value),
        planned: planned.lead.level.over(planned.lead.bound.value),
        n_planned,
        decision: watching.watch.decide(now_ns(start), gain, n_planned),
        n_made: 0,
    };
    let (Decision::Change(n), Some(record)) = (seen_now.decision, &mut watching.record) else {
        told(Ok(seen_now));
        return Ok(());
    };
    if let Some(refusal) = seen.refusals.first() {
        return Err(EngineError(refusal.clone()));
    }
    if n < n_planned {
        let wish = Wish { target: Target::Changes(n), ..watching.wish };
        planned = plan(&look, servers, Vec::new(), &wish)?;
    }
    // Counted before, in case it stops half-way.
    watching.watch.made(now_ns(start), planned.changes.len() as u64);
    let mut n_made = 0;
    let result =
        carry_out(engine, &seen, &planned.changes, record, watching.step, |n_done| n_made = n_done).await;
    seen_now.n_made = n_made as u64;
    told(Ok(seen_now));
    result.map(|_| ())
}

fn now_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Every server keeps the lightest group that it leads: what leads nothing cannot be measured.
fn keep_one_each(look: &mut Look) {
    let mut lightest: BTreeMap<u32, usize> = BTreeMap::new();
    for (i, group) in look.groups.iter().enumerate() {
        let Some(leader) = group.leader.filter(|leader| group.eligible.contains(leader)) else { continue };
        if group.weight > 0 {
            let best = lightest.entry(leader).or_insert(i);
            if look.groups[*best].weight > group.weight {
                *best = i;
            }
        }
    }
    for (leader, i) in lightest {
        look.groups[i].eligible = vec![leader];
    }
}
