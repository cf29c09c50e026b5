//! What a plan of who leads looks like: a table that people can judge, an object for machines.

use std::fmt::Write;
use std::path::Path;

use evenkeel::lead::Wish;
use evenkeel::model::{Ratio, ServerId};
use evenkeel_formats::{Bottleneck, Changes, Figure};
use evenkeel_node::lead::{Change, Look, Planned, Undo};
use serde::Serialize;

use super::super::plan::{fewest, trade_off};
use super::super::ratio;
use super::{Speeds, Store};
use crate::text::{count, counted, pairs, size, some_of, table};

/// Servers and changes that are shown to people. Machines get all of them.
const MOST_SERVERS: usize = 24;
const MOST_CHANGES: usize = 12;

/// The result, for machines.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    format: u32,
    engine: &'static str,
    store: String,
    weigh: &'static str,
    groups: u64,
    pools: u64,
    today: Figure,
    max_load: Figure,
    lower_bound: Figure,
    /// Today's and the planned maximum divided by the bound.
    score_today: f64,
    score: f64,
    optimal: bool,
    bottleneck: Bottleneck,
    changes: Changes,
    servers: Vec<Row>,
    moves: Vec<Move>,
    left_alone: Vec<String>,
    refusals: Vec<String>,
    remarks: Vec<String>,
    /// Whether all changes were made, if they were to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo_file: Option<String>,
    #[serde(skip)]
    names: Names,
}

#[derive(Debug)]
struct Names {
    group: &'static str,
    pool: &'static str,
    server: &'static str,
    is_in_bytes: bool,
}

#[derive(Debug, Default, Serialize)]
struct Row {
    server: String,
    speed: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    barred: Option<String>,
    today: Led,
    planned: Led,
}

/// What a server leads.
#[derive(Clone, Debug, Default, Serialize)]
struct Led {
    groups: u64,
    weight: u64,
    /// When it is done, divided by the bound.
    score: f64,
}

impl Led {
    fn add(&mut self, weight: u64) {
        self.groups += 1;
        self.weight += weight;
    }
}

#[derive(Debug, Serialize)]
struct Move {
    group: String,
    pool: String,
    weight: u64,
    from: String,
    to: String,
}

impl Report {
    pub(super) fn new(store: &Store, look: &Look, speeds: &Speeds, planned: &Planned, wish: &Wish) -> Self {
        let Planned { batch, cluster, lead, forced, .. } = planned;
        let bound = lead.bound.value;
        let over = |time: Ratio| if bound == Ratio::ZERO { 1.0 } else { time.over(bound) };
        let mut servers: Vec<Row> = Vec::new();
        for (member, server) in look.servers.iter().zip(&speeds.servers) {
            let speed = server.speed.millionths() as f64 / 1e6;
            let (server, barred) = (member.name.clone(), member.barred.clone());
            servers.push(Row { server, speed, barred, ..Row::default() });
        }
        if let Some(&fastest) = speeds.rates.iter().max() {
            for (row, &rate) in servers.iter_mut().zip(&speeds.rates) {
                row.speed = rate as f64 / fastest as f64;
            }
        }
        let mut moves = Vec::new();
        for (i, (&group, &to)) in planned.groups.iter().zip(&lead.choice.servers).enumerate() {
            let group = &look.groups[group];
            let Some(from) = group.leader else { continue };
            servers[from as usize].today.add(batch.blocks(i));
            servers[to.index()].planned.add(batch.blocks(i));
            if from != to.0 {
                moves.push(Move {
                    group: group.name.clone(),
                    pool: group.pool.clone(),
                    weight: group.weight,
                    from: look.name(from).to_owned(),
                    to: look.name(to.0).to_owned(),
                });
            }
        }
        for (server, row) in (0..).map(ServerId).zip(&mut servers) {
            for led in [&mut row.today, &mut row.planned] {
                led.score = over(cluster.done(server, led.weight));
            }
        }
        let is_optimal = lead.level == bound;
        let mut left_alone = look.left_alone.clone();
        for row in servers.iter().filter(|row| row.planned.groups > 0) {
            if let Some(reason) = &row.barred {
                let groups = counted(row.planned.groups, store.group);
                let name = &row.server;
                left_alone
                    .push(format!("{groups} of {name}, which must not lead ({reason}): no other member can"));
            }
        }
        Self {
            format: 1,
            engine: store.engine.name(),
            store: look.store.clone(),
            weigh: store.weigh,
            groups: batch.n_requests() as u64,
            pools: batch.jobs().len() as u64,
            today: planned.today.into(),
            max_load: lead.level.into(),
            lower_bound: bound.into(),
            score_today: ratio(planned.today, bound),
            score: ratio(lead.level, bound),
            optimal: is_optimal,
            bottleneck: Bottleneck::new(batch, cluster, &lead.bound.proof, *forced),
            changes: Changes::new(batch, lead, wish.cost, planned.at_least),
            servers,
            moves,
            left_alone,
            refusals: look.refusals.clone(),
            remarks: look.remarks.clone(),
            applied: None,
            undo_file: None,
            names: Names {
                group: store.group,
                pool: store.pool,
                server: store.server,
                is_in_bytes: store.is_in_bytes,
            },
        }
    }

    /// Takes note of what came of carrying it out.
    pub(super) fn made(&mut self, made: bool, file: &Path) {
        self.applied = Some(made);
        self.undo_file = Some(file.display().to_string());
    }

    pub(super) fn for_people(&self, look: &Look) -> String {
        let Names { group, pool, server, .. } = self.names;
        let mut text = format!(
            "{} {}: {} in {} on {}, weighed by {}\n\n",
            self.engine,
            self.store,
            counted(self.groups, group),
            counted(self.pools, pool),
            counted(look.servers.len() as u64, server),
            self.weigh
        );
        text.push_str(&self.servers_table());
        text.push('\n');
        let proof = match self.optimal {
            true => "the optimum, proved".to_owned(),
            false => format!("at most {:.1} % above what is possible", 100.0 * (self.score - 1.0)),
        };
        let n = counted(self.changes.requests, "change");
        let fewest = fewest(&self.changes, 1);
        let mut rows = vec![
            ("today", format!("{:.2} × the bound", self.score_today)),
            ("plan", format!("{:.2} × the bound ({proof}) with {n} ({fewest})", self.score)),
        ];
        if self.changes.curve.len() > 1 {
            rows.push(("trade-off", trade_off(&self.changes.curve, self.lower_bound)));
        }
        rows.push(("because", self.because()));
        rows.extend(self.left_alone.iter().map(|reason| ("left alone", reason.clone())));
        rows.extend(self.remarks.iter().map(|remark| ("note", remark.clone())));
        rows.extend(self.refusals.iter().map(|refusal| ("not now", refusal.clone())));
        text.push_str(&pairs(&rows));
        self.add_moves(&mut text);
        text
    }

    /// What forces the bound, in words.
    fn because(&self) -> String {
        let Names { group, server, is_in_bytes, .. } = self.names;
        let Bottleneck::Servers { servers, requests, blocks } = &self.bottleneck else {
            return String::new();
        };
        let groups = counted(*requests, group);
        let what = if is_in_bytes { format!("{groups} of {}", size(*blocks as f64)) } else { groups };
        match servers.len() {
            n if n == self.servers.len() => format!("all {} together lead {what}", counted(n as u64, server)),
            1 => format!("only {} can lead {what}", servers[0]),
            _ => format!("only {} can lead {what}", some_of(servers, 5)),
        }
    }

    fn servers_table(&self) -> String {
        let what = if self.names.is_in_bytes { self.weigh } else { "" };
        let mut head =
            vec![self.names.server, "speed", "leads", what, "÷ bound", "→", "leads", what, "÷ bound"];
        if !self.names.is_in_bytes {
            head.retain(|column| !column.is_empty());
        }
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        let mut order: Vec<&Row> = self.servers.iter().collect();
        if order.len() > MOST_SERVERS {
            // The fullest are what matters.
            order.sort_by(|a, b| b.today.score.total_cmp(&a.today.score));
            order.truncate(MOST_SERVERS);
        }
        for server in &order {
            let led = |led: &Led| {
                let mut cells = vec![count(led.groups)];
                if self.names.is_in_bytes {
                    cells.push(size(led.weight as f64));
                }
                cells.push(format!("{:.2}", led.score));
                cells
            };
            let speed = match &server.barred {
                Some(_) => "–".to_owned(),
                None => format!("{}", (server.speed * 1000.0).round() / 1000.0),
            };
            let mut row = vec![server.server.clone(), speed];
            row.extend(led(&server.today));
            row.push(String::new());
            row.extend(led(&server.planned));
            row.extend(server.barred.clone());
            rows.push(row);
        }
        let mut text = table(&rows);
        if self.servers.len() > order.len() {
            let _ = writeln!(
                text,
                "  and {} more, less busy today",
                count((self.servers.len() - order.len()) as u64)
            );
        }
        text
    }

    fn add_moves(&self, text: &mut String) {
        if self.moves.is_empty() {
            return;
        }
        text.push('\n');
        let weight = |weight: u64| if self.names.is_in_bytes { size(weight as f64) } else { String::new() };
        let rows = self.moves.iter().take(MOST_CHANGES).map(|change| {
            let Move { group, pool, from, to, .. } = change;
            vec![group.clone(), pool.clone(), weight(change.weight), format!("{from} → {to}")]
        });
        text.push_str(&table(&rows.collect::<Vec<_>>()));
        if let Some(more) = self.moves.len().checked_sub(MOST_CHANGES).filter(|&more| more > 0) {
            let _ = writeln!(text, "  and {} more", count(more as u64));
        }
    }
}

/// The result of an undo, for machines.
#[derive(Debug, Serialize)]
pub(super) struct Undone<'a> {
    format: u32,
    moves: &'a [Change],
    kept: &'a [String],
    refused: &'a [String],
    made: usize,
}

impl<'a> Undone<'a> {
    pub(super) fn new(undo: &'a Undo, made: usize) -> Self {
        let Undo { changes, kept, refused } = undo;
        Self { format: 1, moves: changes, kept, refused, made }
    }
}

/// The result of an undo, for people; `n_made` if it was carried out.
pub(super) fn undone(undo: &Undo, n_recorded: usize, n_made: Option<usize>) -> String {
    let n = count(undo.changes.len() as u64);
    let of = counted(n_recorded as u64, "group");
    let mut text = match n_made {
        Some(made) => return format!("{} of {of} were given back\n", count(made as u64)),
        None => format!("{n} of {of} would be given back; --apply does it\n"),
    };
    let rows = undo
        .changes
        .iter()
        .map(|change| vec![change.group.clone(), format!("{} → {}", change.from, change.to)]);
    text.push_str(&table(&rows.collect::<Vec<_>>()));
    text
}
