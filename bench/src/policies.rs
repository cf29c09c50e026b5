//! Every policy on one batch, and on one half as large: its cost compared with `optimal`, and how it grows.

use anyhow::{Context, Result};
use evenkeel::check;
use evenkeel::model::{Batch, Cluster};
use evenkeel::policy::{Ask, Kind, OPTIMAL, POLICIES, Policy};
use evenkeel::select::{self, Goal as Aim};

use crate::Race;
use crate::batches::{count, uniform};
use crate::clock::{Contestant, cpu_s, in_turn};
use crate::goals::Goal;
use crate::report::{Cell, Report, Table};

pub(crate) fn run(race: &Race, report: &mut Report) -> Result<()> {
    let columns =
        ["policy", "length or load", "optimal ms", "ms", "× optimal", "half of the requests ms", "× half"];
    let mut table = Table::new("Policies", &columns);
    let n_requests = if race.args.quick { 20_000 } else { 1_000_000 };
    let asked = POLICIES.iter().filter(|policy| policy.plans());
    let asked: Vec<&Policy> = asked.filter(|policy| !policy.is(&OPTIMAL)).collect();
    let name = |policy: &Policy| format!("policy-{}-{}", count(n_requests), policy.name);
    let asked: Vec<&Policy> = asked.into_iter().filter(|policy| race.has(&name(policy))).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let batches = [n_requests, n_requests / 2].map(|n| uniform(n, 1000).generate());
    let [all, half] = batches;
    let (all, half) = (all?, half?);
    for policy in asked {
        let name = name(policy);
        let found = work(&all, policy)?;
        let (of_all, of_half) = (prepared(&all, policy), prepared(&half, policy));
        let [optimal, ours, half] = in_turn(
            race.args.repeat.min(3),
            [
                Contestant::new(|| Ok(optimum(&all))),
                Contestant::new(|| Ok(of_all())),
                Contestant::new(|| Ok(of_half())),
            ],
        )?;
        let (ratio, growth) = (ours.ratio_to(&optimal), ours.ratio_to(&half));
        match policy.kind {
            Kind::Select(_) => report.measured(Goal::Policies, &name, ratio),
            _ => report.measured(Goal::Rounds, &name, ours.min_s()),
        }
        report.measured(Goal::PolicyGrowth, &name, growth);
        table.row([
            Cell::text(&name),
            Cell::Number(found),
            Cell::Time(optimal),
            Cell::Time(ours),
            Cell::Ratio(ratio),
            Cell::Time(half),
            Cell::Ratio(growth),
        ]);
    }
    report.table(table);
    Ok(())
}

/// The seconds that the optimal choice takes.
fn optimum(batch: &Batch) -> f64 {
    let cluster = Cluster::equal(batch);
    cpu_s(|| select::optimal::select(batch, &cluster, Aim::Length))
}

/// A run of the policy on a batch that returns its seconds. For an order, they exclude the choice that it orders.
fn prepared<'a>(batch: &'a Batch, policy: &Policy) -> Box<dyn Fn() -> f64 + 'a> {
    let (cluster, ask) = (Cluster::equal(batch), Ask::default());
    match policy.kind {
        Kind::Select(select) => Box::new(move || cpu_s(|| select(batch, &cluster, &ask))),
        Kind::Plan(plan) => Box::new(move || cpu_s(|| plan(batch, &cluster, &ask))),
        Kind::Order(order) => {
            let (choice, _) = select::optimal::select(batch, &cluster, Aim::Length);
            Box::new(move || cpu_s(|| order(batch, &cluster, &choice, &ask)))
        }
        _ => Box::new(|| 0.0),
    }
}

/// The length of the checked plan, or the largest load of a choice.
fn work(batch: &Batch, policy: &Policy) -> Result<f64> {
    let (cluster, ask) = (Cluster::equal(batch), Ask::default());
    let ordered = match policy.kind {
        Kind::Select(select) => {
            let (choice, _) = select(batch, &cluster, &ask);
            return Ok(choice.last_done(batch, &cluster).to_f64());
        }
        Kind::Plan(plan) => plan(batch, &cluster, &ask).1,
        Kind::Order(order) => {
            let (choice, _) = select::optimal::select(batch, &cluster, Aim::Length);
            order(batch, &cluster, &choice, &ask)
        }
        _ => return Ok(0.0),
    };
    let measures = check::plan(batch, &cluster, &ordered.schedule.transfers, true);
    Ok(measures.with_context(|| policy.name)?.length.to_f64())
}
