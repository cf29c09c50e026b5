//! From a batch to a plan in one call: choose replicas, order transfers, compute a bound and check its proof.
//!
//! A policy that only chooses replicas is followed by an order: the shortest, unless another one is named. A policy
//! that orders by itself keeps its own order. A policy that only orders is given the optimal choice.
//!
//! Where the optimal choice does not meet its bound, the distance of the plan from the optimum is unknown; only its
//! distance from the bound is known. The plan is then the best one found by trying other policies, too. For small
//! batches ([`MOST_REQUESTS_FOR_ALL_RIVALS`]) these are all policies, each in every order; otherwise only those that
//! come close in practice ([`Policy::comes_close`]).

use crate::bound::Bound;
use crate::check::{self, Fault, Forced, Subject};
use crate::lead::{self, Lead, Wish};
use crate::model::{Batch, Choice, Cluster, Fixed, Part, Ratio, Schedule, Transfer};
use crate::policy::{
    Ask, Kind, OPTIMAL, OrderFn, Ordered, POLICIES, PlanFn, Policy, SHORTEST, SelectFn, order_shortest,
};
use crate::select::{Goal, optimal, whole};

/// Up to this many requests, an optimal choice that does not meet its bound is compared with that of every policy.
pub const MOST_REQUESTS_FOR_ALL_RIVALS: usize = 2048;

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The policy that chooses replicas, orders the optimal choice, or does both.
    pub policy: &'a Policy,
    /// How transfers are ordered.
    pub order: OrderBy<'a>,
    /// Whether requests must not be split between servers.
    pub whole: bool,
    /// Whether the choice is to differ from today's as little as possible, and how good it is to be then. Requests are
    /// whole, and the policy is [`OPTIMAL`].
    pub near_today: Option<Wish>,
    /// Parameters of the policies.
    pub ask: Ask,
}

impl Default for Options<'_> {
    /// The optimal choice in the shortest order.
    fn default() -> Self {
        Self { policy: &OPTIMAL, order: OrderBy::Usual, whole: false, near_today: None, ask: Ask::default() }
    }
}

/// How transfers are ordered.
#[derive(Clone, Copy, Debug)]
pub enum OrderBy<'a> {
    /// By the policy itself if it orders, otherwise in the shortest order.
    Usual,
    /// By this policy.
    Policy(&'a Policy),
    /// Not at all: replicas are chosen, and all transfers start at 0.
    Nobody,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum NoPlan {
    #[error("policy {0} does not plan batches; name one that chooses replicas, orders transfers, or both")]
    NotAPlanner(&'static str),
    #[error("policy {0} does not order transfers; name one that does")]
    NotAnOrder(&'static str),
    #[error("policy {0} is itself an order; leave out the other one, or name a policy that chooses replicas")]
    TwoOrders(&'static str),
    #[error("policy {0} only orders transfers, but no order is wanted; name a policy that chooses replicas")]
    OrderWithoutOrder(&'static str),
    #[error("policy {0} takes no notice of who serves today; for the fewest changes leave it out")]
    IgnoresToday(&'static str),
    #[error("the proof of the bound does not hold: {0}; this is a bug in evenkeel, please report it")]
    Proof(#[from] Fault),
}

/// A plan with its proof.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which replica serves how much of each request.
    pub choice: Choice,
    /// When each transfer starts; all start at 0 if they are not ordered.
    pub ordered: Ordered,
    /// No plan is shorter. If transfers are not ordered: no choice has a smaller maximum load.
    pub bound: Bound,
    /// What forces the bound, counted by [`check::bound`].
    pub forced: Forced,
    /// This plan's value of the quantity that is bounded.
    pub achieved: Ratio,
    /// How near it is to today's choice, if that was wanted.
    pub lead: Option<Lead>,
}

impl Plan {
    /// Whether the plan meets its bound, to within the resolution of times.
    pub fn is_optimal(&self) -> bool {
        meets(self.achieved, self.bound.value)
    }
}

/// Whether a length or load does not exceed its bound, allowing for a start and an end rounded to a billionth each.
pub fn meets(achieved: Ratio, bound: Ratio) -> bool {
    achieved.rounded().nanos() <= bound.rounded().nanos() + 2
}

/// Plans a batch.
pub fn plan(batch: &Batch, cluster: &Cluster, options: &Options<'_>) -> Result<Plan, NoPlan> {
    let planner = Planner::new(options)?;
    let chosen = planner.choose(batch, cluster);
    let made = planner.order(batch, cluster, chosen);
    planner.prove(batch, cluster, made)
}

/// Plans step by step, for callers that time each step or need no proof.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    /// The policy that chooses.
    policy: &'a Policy,
    choose: Choose,
    order: Order<'a>,
    whole: bool,
    near_today: Option<Wish>,
    ask: Ask,
}

#[derive(Clone, Copy, Debug)]
enum Choose {
    Select(SelectFn),
    Plan(PlanFn),
}

#[derive(Clone, Copy, Debug)]
enum Order<'a> {
    Nobody,
    Own,
    By(&'a Policy, OrderFn),
}

/// What a policy has chosen, before it is ordered.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Which replica serves how much of each request.
    pub choice: Choice,
    /// The bound, if the policy has proved one.
    bound: Option<Bound>,
    own_order: Option<Ordered>,
    lead: Option<Lead>,
}

/// An ordered choice whose quality is not proved yet.
#[derive(Clone, Debug)]
pub struct Made {
    /// Which replica serves how much of each request.
    pub choice: Choice,
    /// When each transfer starts.
    pub ordered: Ordered,
    /// The bound, if the policy has found one.
    bound: Option<Bound>,
    lead: Option<Lead>,
}

impl<'a> Planner<'a> {
    /// Creates a planner with these options.
    pub fn new(options: &Options<'a>) -> Result<Self, NoPlan> {
        let Options { policy, order, whole, near_today, ask } = *options;
        let named = match order {
            OrderBy::Usual => None,
            OrderBy::Nobody => Some(Order::Nobody),
            OrderBy::Policy(order) => match order.kind {
                Kind::Order(by) => Some(Order::By(order, by)),
                _ => return Err(NoPlan::NotAnOrder(order.name)),
            },
        };
        let (choose, usual) = match policy.kind {
            Kind::Select(select) => (Choose::Select(select), Order::By(&SHORTEST, order_shortest)),
            Kind::Plan(plan) => (Choose::Plan(plan), Order::Own),
            Kind::Order(_) => {
                let order = match order {
                    OrderBy::Usual => OrderBy::Policy(policy),
                    OrderBy::Policy(other) if !other.is(policy) => {
                        return Err(NoPlan::TwoOrders(policy.name));
                    }
                    OrderBy::Nobody if !policy.is(&SHORTEST) => {
                        return Err(NoPlan::OrderWithoutOrder(policy.name));
                    }
                    order => order,
                };
                return Self::new(&Options { policy: &OPTIMAL, order, ..*options });
            }
            _ => return Err(NoPlan::NotAPlanner(policy.name)),
        };
        if near_today.is_some() && !policy.is(&OPTIMAL) {
            return Err(NoPlan::IgnoresToday(policy.name));
        }
        let order = named.unwrap_or(usual);
        let goal = match order {
            Order::Nobody if ask.goal == Goal::Length => Goal::MaxLoad,
            _ => ask.goal,
        };
        let whole = whole || near_today.is_some();
        Ok(Self { policy, choose, order, whole, near_today, ask: Ask { goal, ..ask } })
    }

    /// The policy that chooses.
    pub fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// The policy that orders, if any.
    pub fn order_policy(&self) -> Option<&'a Policy> {
        match self.order {
            Order::Nobody => None,
            Order::Own => Some(self.policy),
            Order::By(order, _) => Some(order),
        }
    }

    /// Whether requests must not be split.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Parameters of the policies.
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// What the bound is about.
    pub fn subject(&self) -> Subject {
        if matches!(self.order, Order::Nobody) { Subject::MaxLoad } else { Subject::Length }
    }

    /// Chooses replicas.
    pub fn choose(&self, batch: &Batch, cluster: &Cluster) -> Chosen {
        if let Some(wish) = &self.near_today {
            let lead = lead::fewest(batch, cluster, wish);
            // It is a bound on loads, and says nothing about the length.
            let bound = Some(lead.bound.clone()).filter(|_| self.subject() == Subject::MaxLoad);
            return Chosen { choice: lead.choice.clone(), bound, own_order: None, lead: Some(lead) };
        }
        match self.choose {
            Choose::Select(select) => {
                let (choice, bound) = select(batch, cluster, &self.ask);
                let choice = if self.whole { whole::unsplit(batch, cluster, choice) } else { choice };
                Chosen { choice, bound, own_order: None, lead: None }
            }
            Choose::Plan(plan) => {
                let (choice, ordered) = plan(batch, cluster, &self.ask);
                Chosen { choice, bound: None, own_order: Some(ordered), lead: None }
            }
        }
    }

    /// Orders a choice. An optimal choice that does not meet its bound is replaced by a better one of another policy.
    pub fn order(&self, batch: &Batch, cluster: &Cluster, chosen: Chosen) -> Made {
        let Chosen { choice, bound, own_order, lead } = chosen;
        // With an order, only a bound on the length counts.
        let bound = bound.filter(|_| self.subject() == Subject::MaxLoad || self.ask.goal == Goal::Length);
        let ordered = self.ordered(batch, cluster, &choice, own_order);
        let mut made = Made { choice, ordered, bound, lead };
        // Others would change more.
        if made.lead.is_none()
            && self.ask.goal != Goal::Mean
            && let Some(bound) = made.bound.as_ref().map(|bound| bound.value)
        {
            self.compare_with_rivals(batch, cluster, bound, &mut made);
        }
        made
    }

    /// Computes a bound on what was made, and checks the proof.
    pub fn prove(&self, batch: &Batch, cluster: &Cluster, made: Made) -> Result<Plan, NoPlan> {
        let achieved = self.achieved(batch, cluster, &made);
        let Made { choice, ordered, bound, lead } = made;
        let (bound, forced) = self.bound(batch, cluster, bound)?;
        Ok(Plan { choice, ordered, bound, forced, achieved, lead })
    }

    /// The bound on plans like these (`known` if it was found before), and what forces it.
    pub fn bound(
        &self,
        batch: &Batch,
        cluster: &Cluster,
        known: Option<Bound>,
    ) -> Result<(Bound, Forced), NoPlan> {
        let subject = self.subject();
        let goal = if subject == Subject::Length { Goal::Length } else { Goal::MaxLoad };
        let mut bound = known.unwrap_or_else(|| optimal::bound(batch, cluster, goal));
        let forced = check::bound(batch, cluster, &bound, subject)?;
        // The solver may have rounded its bound down. The bound is what is proved.
        bound.value = bound.value.max(forced.proved);
        Ok((bound, forced))
    }

    /// The transfers of a choice, in order.
    fn ordered(&self, batch: &Batch, cluster: &Cluster, choice: &Choice, own: Option<Ordered>) -> Ordered {
        match (self.order, own) {
            (Order::Own, Some(own)) => own,
            (Order::By(_, order), own) => {
                let messages = own.and_then(|own| own.messages);
                Ordered { messages, ..order(batch, cluster, choice, &self.ask) }
            }
            (_, own) => {
                let at_once = |Part { request, server, blocks }| Transfer {
                    request,
                    server,
                    start: Fixed::ZERO,
                    blocks: blocks.into(),
                };
                let transfers = choice.parts(batch).map(at_once).collect();
                let schedule = Schedule { transfers, length: Ratio::ZERO };
                Ordered { schedule, ..own.unwrap_or_default() }
            }
        }
    }

    fn achieved(&self, batch: &Batch, cluster: &Cluster, made: &Made) -> Ratio {
        match self.subject() {
            Subject::Length => made.ordered.schedule.length,
            Subject::MaxLoad => made.choice.last_done(batch, cluster),
        }
    }

    /// Takes what another policy makes if that is better, until the bound is met.
    fn compare_with_rivals(&self, batch: &Batch, cluster: &Cluster, bound: Ratio, best: &mut Made) {
        let optimal = best.choice.clone();
        let mut achieved = self.achieved(batch, cluster, best);
        let is_small = batch.n_requests() <= MOST_REQUESTS_FOR_ALL_RIVALS;
        let mut tried: Vec<Choice> = Vec::new();
        let orders = POLICIES.iter().filter_map(|policy| match policy.kind {
            Kind::Order(order) => Some(order),
            _ => None,
        });
        let orders: Vec<OrderFn> = orders.collect();
        for rival in POLICIES.iter().filter(|rival| is_small || rival.comes_close) {
            if meets(achieved, bound) {
                return;
            }
            let Some((choice, own_order)) = self.made_by(rival, batch, cluster, &optimal) else { continue };
            let mut schedules: Vec<Schedule> = own_order.map(|own| own.schedule).into_iter().collect();
            // Choices not seen before, in every order that may be shorter.
            if !tried.contains(&choice) {
                schedules.push(self.ordered(batch, cluster, &choice, None).schedule);
                let others = orders.iter().filter(|_| is_small && self.takes_any_order());
                schedules.extend(others.map(|order| order(batch, cluster, &choice, &self.ask).schedule));
                tried.push(choice.clone());
            }
            for schedule in schedules {
                let ordered = Ordered { schedule, ..Ordered::default() };
                let made = Made { choice: choice.clone(), ordered, bound: best.bound.clone(), lead: None };
                let rival_achieved = self.achieved(batch, cluster, &made);
                if rival_achieved < achieved {
                    (*best, achieved) = (made, rival_achieved);
                }
            }
        }
    }

    /// What another policy chooses, or how it orders the optimal choice. Its own order is used only if it may replace
    /// the shortest.
    fn made_by(
        &self,
        rival: &Policy,
        batch: &Batch,
        cluster: &Cluster,
        optimal: &Choice,
    ) -> Option<(Choice, Option<Ordered>)> {
        let (choice, own_order) = match rival.kind {
            Kind::Select(select) => (select(batch, cluster, &self.ask).0, None),
            Kind::Plan(plan) => {
                let (choice, ordered) = plan(batch, cluster, &self.ask);
                (choice, Some(ordered))
            }
            Kind::Order(order) => (optimal.clone(), Some(order(batch, cluster, optimal, &self.ask))),
            _ => return None,
        };
        if self.whole && !choice.split_off.is_empty() {
            return Some((whole::unsplit(batch, cluster, choice), None));
        }
        Some((choice, own_order.filter(|_| self.takes_any_order())))
    }

    /// Whether another order may replace the requested one. It may if that is [`SHORTEST`], in case it is not the
    /// shortest.
    fn takes_any_order(&self) -> bool {
        self.order_policy().is_some_and(|order| order.is(&SHORTEST))
    }
}
