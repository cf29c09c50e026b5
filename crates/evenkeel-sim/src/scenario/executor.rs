//! The table `[executor]`: how requests are carried out.

use evenkeel::run::{Decide, Late};
use serde::Deserialize;

use super::document::{Places, ScenarioError};
use crate::requests::{Conduct, Trouble};
use crate::units::Span;

/// When online policies pick a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum When {
    OnArrival,
    WhenFree,
}

/// When a transfer is hedged.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "write \"p95\", a span such as \"200ms\", or a multiple of the expected time, such as 2.0"
)]
enum After {
    Times(f64),
    Text(String),
}

/// The table as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Executor {
    decide: Option<When>,
    hedge_after: Option<After>,
    hedge_budget: Option<f64>,
    replan: Option<bool>,
    replan_after: Option<f64>,
    lost: Option<f64>,
    timeout: Option<Span>,
    cancelled: Option<f64>,
    dead_clients: Option<f64>,
    progress: Option<Span>,
}

impl Executor {
    /// Interprets the table, or returns what is wrong with it.
    pub(super) fn conduct(&self, places: &Places) -> Result<Conduct, ScenarioError> {
        let wrong = |key: &str, message: &str| Err(places.error(&format!("executor.{key}"), message));
        let usual = Conduct::default();
        let hedge_budget = self.hedge_budget.unwrap_or(usual.hedge_budget);
        if !(0.0..=1.0).contains(&hedge_budget) {
            return wrong("hedge_budget", "the budget is out of range; use a share of all bytes from 0 to 1");
        }
        let replan_after = self.replan_after.unwrap_or(usual.replan_after);
        if !(0.0..=1e6).contains(&replan_after) {
            return wrong("replan_after", "the share is out of range; use a number from 0 to 1000000");
        }
        if self.replan == Some(false) && self.replan_after.is_some() {
            return wrong(
                "replan_after",
                "with replan = false nothing is planned again; leave one of them out",
            );
        }
        let hedge_after = match &self.hedge_after {
            None => usual.hedge_after,
            Some(After::Times(times)) if (1.0..=1e6).contains(times) => Late::Share(times - 1.0),
            Some(After::Times(_)) => {
                return wrong("hedge_after", "the multiple is out of range; use a number from 1 to 1000000");
            }
            Some(After::Text(text)) if text == "p95" => Late::P95,
            Some(After::Text(text)) => match text.parse() {
                Ok(Span(after_ns)) => Late::AfterNs(after_ns),
                Err(error) => return wrong("hedge_after", &format!("{error}; or \"p95\"")),
            },
        };
        let decide = self.decide.map(|when| match when {
            When::OnArrival => Decide::OnArrival,
            When::WhenFree => Decide::WhenFree,
        });
        let replans = self.replan.unwrap_or(usual.replans);
        let trouble = self.trouble(places)?;
        Ok(Conduct { decide, hedge_after, hedge_budget, replans, replan_after, trouble })
    }

    fn trouble(&self, places: &Places) -> Result<Trouble, ScenarioError> {
        let share = |key: &str, value: Option<f64>, most: f64, of: &str| match value.unwrap_or(0.0) {
            share if (0.0..=most).contains(&share) => Ok(share),
            _ => Err(places.error(
                &format!("executor.{key}"),
                format!("the share is out of range; use a share of {of} from 0 to {most}"),
            )),
        };
        // If more messages are lost, hardly anything ever completes.
        let lost = share("lost", self.lost, 0.5, "all messages")?;
        let cancelled = share("cancelled", self.cancelled, 1.0, "all requests")?;
        let dead_clients = share("dead_clients", self.dead_clients, 1.0, "all clients")?;
        if self.timeout.is_some() && lost == 0.0 {
            let message = "no messages are lost; set their share with `lost`, or leave this key out";
            return Err(places.error("executor.timeout", message));
        }
        let timeout_ns = self.timeout.map_or(Trouble::default().timeout_ns, |span| span.0);
        let progress_ns = self.progress.map(|span| span.0);
        if progress_ns == Some(0) {
            return Err(places.error("executor.progress", "the interval cannot be 0; use a longer one"));
        }
        Ok(Trouble { lost, timeout_ns, cancelled, dead_clients, progress_ns })
    }
}
