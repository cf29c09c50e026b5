//! Max-min fair rates of flows that cross links, updated change by change.

use evenkeel::Heap;

/// A flow at a link.
#[derive(Debug, Clone, Copy)]
struct Member {
    cap: f64,
    /// The flow's other link.
    other: u32,
    flow: u32,
}

#[derive(Debug, Clone)]
struct Link {
    capacity: f64,
    members: Vec<Member>,
    /// Whether members or their caps have changed since the last solution.
    stale: bool,
    /// Whether the level has changed during the current solution.
    moved: bool,
}

/// Where a flow sits: a link, and its index among the link's members.
#[derive(Debug, Clone, Copy)]
struct Seat {
    link: u32,
    place: u32,
}

#[derive(Debug, Clone, Copy)]
struct Seats {
    cap: f64,
    rate: f64,
    /// Seats at the even and at the odd link; `None` for a flow that crosses no link.
    at: Option<[Seat; 2]>,
}

/// The shares of flows that each cross one even-numbered and one odd-numbered link, or none.
///
/// Each link `l` of capacity `C_l` has a level `x_l`, the most that any flow gets there. A flow `f` with cap `c_f` on
/// links `l` and `m` has the rate
///
/// ```text
///   r_f = min(c_f, x_l, x_m)
/// ```
///
/// and the levels solve, for every link,
///
/// ```text
///   x_l = the x with  sum over f on l of min(x, u_f) = C_l,     u_f = min(c_f, x_m)           (1)
///   x_l = infinity    if the sum of the u_f is no more than C_l
/// ```
///
/// These rates are max-min fair: a flow that is not at its cap has the rate `x_l` of a link that is full and where no
/// flow is faster. The only allocation in which each flow has such a bottleneck is the max-min fair one.
///
/// # Keeping up with changes
///
/// In (1), a `u_f >= x_l` may be replaced by any other value that is at least `x_l`: levels depend on lower levels
/// only. So a change spreads upwards, and the solver visits the links it reaches in the order of their levels. A link
/// is off when its level differs from its target, which is the right side of (1) at the current levels. The queue holds
/// the links that are off, by key = min(level, target). The link with the least key `k` takes its target as its level:
///
/// - Both the old and the new level are at least `k`. So targets up to `k` do not change, and a target above `k` stays
///   above `k` or falls to `k` at the least: at `x = k` the sum in (1) is the same before and after. Keys never fall.
/// - A link that has come down to its target `k` is therefore final. A link that has gone up may have to move again. So
///   the first time it goes up to its target, which is usually right. Later it goes up to infinity, from where it only
///   comes down. Each link moves at most three times.
/// - When the queue is empty, (1) holds everywhere. A link that no change reaches is never looked at.
///
/// Floats round, so a target is kept at or above `k`. With that, the argument above bounds the work in floats as well.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    links: Vec<Link>,
    levels: Vec<f64>,
    targets: Vec<f64>,
    flows: Vec<Seats>,
    off: Heap<f64>,
    stale_links: Vec<u32>,
    stale_flows: Vec<u32>,
    /// Links whose level has changed in this solution, with their previous level.
    moved: Vec<(u32, f64)>,
}

impl Shares {
    pub(super) fn new(capacities: impl Iterator<Item = f64>) -> Self {
        let links: Vec<Link> = capacities
            .map(|capacity| Link { capacity, members: Vec::new(), stale: false, moved: false })
            .collect();
        let open = vec![f64::INFINITY; links.len()];
        Self {
            links,
            levels: open.clone(),
            targets: open,
            flows: Vec::new(),
            off: Heap::default(),
            stale_links: Vec::new(),
            stale_flows: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Adds the flow `flow` at an even and an odd link, or at none. `flow` is a small number that no present flow has.
    pub(super) fn join(&mut self, flow: u32, links: Option<[u32; 2]>, cap: f64) {
        let at = links.map(|[even, odd]| [self.sit(flow, even, odd, cap), self.sit(flow, odd, even, cap)]);
        let seats = Seats { cap, rate: 0.0, at };
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Seats { at: None, ..seats });
        }
        self.flows[flow as usize] = seats;
        self.stale_flows.push(flow);
    }

    pub(super) fn leave(&mut self, flow: u32) {
        let seats = &mut self.flows[flow as usize];
        (seats.cap, seats.rate) = (0.0, 0.0);
        for seat in seats.at.take().into_iter().flatten() {
            let members = &mut self.links[seat.link as usize].members;
            members.swap_remove(seat.place as usize);
            if let Some(&Member { flow: shifted, .. }) = members.get(seat.place as usize)
                && let Some(at) = &mut self.flows[shifted as usize].at
            {
                at[side(seat.link)].place = seat.place;
            }
            self.touch(seat.link);
        }
    }

    pub(super) fn set_cap(&mut self, flow: u32, cap: f64) {
        let seats = &mut self.flows[flow as usize];
        seats.cap = cap;
        for seat in seats.at.into_iter().flatten() {
            self.links[seat.link as usize].members[seat.place as usize].cap = cap;
            self.touch(seat.link);
        }
        self.stale_flows.push(flow);
    }

    /// The rate as of the last solution.
    pub(super) fn rate(&self, flow: u32) -> f64 {
        self.flows[flow as usize].rate
    }

    /// Brings all rates up to date and adds the flows whose rate has changed to `changed`.
    pub(super) fn solve(&mut self, changed: &mut Vec<u32>) {
        while let Some(link) = self.stale_links.pop() {
            self.links[link as usize].stale = false;
            self.aim(link, 0.0);
        }
        while let Some((key, link)) = self.off.first() {
            self.step(link, key);
        }
        self.update_rates(changed);
    }

    fn sit(&mut self, flow: u32, link: u32, other: u32, cap: f64) -> Seat {
        self.touch(link);
        let members = &mut self.links[link as usize].members;
        members.push(Member { cap, other, flow });
        Seat { link, place: members.len() as u32 - 1 }
    }

    fn touch(&mut self, link: u32) {
        let stale = &mut self.links[link as usize].stale;
        if !*stale {
            *stale = true;
            self.stale_links.push(link);
        }
    }

    /// Moves the link with the least key towards its target.
    fn step(&mut self, link: u32, key: f64) {
        let (old, target) = (self.levels[link as usize], self.targets[link as usize]);
        let again = std::mem::replace(&mut self.links[link as usize].moved, true);
        if !again {
            self.moved.push((link, old));
        }
        self.levels[link as usize] = if again && old < target { f64::INFINITY } else { target };
        self.queue(link);
        self.spread(link, key);
    }

    /// Updates the targets that a change of the link's level can affect. `key` is the lower of the old and the new
    /// level.
    fn spread(&mut self, link: u32, key: f64) {
        for i in 0..self.links[link as usize].members.len() {
            let Member { cap, other, .. } = self.links[link as usize].members[i];
            if key < cap && key < self.targets[other as usize] {
                self.aim(other, key);
            }
        }
    }

    /// Updates the link's target, which is known to be at least `floor`.
    fn aim(&mut self, link: u32, floor: f64) {
        let target = fill(&self.links[link as usize], &self.levels, self.targets[link as usize]);
        self.targets[link as usize] = if target < floor { floor } else { target };
        self.queue(link);
    }

    fn queue(&mut self, link: u32) {
        let (level, target) = (self.levels[link as usize], self.targets[link as usize]);
        if level < target || target < level {
            self.off.set(link, least(level, target));
        } else {
            self.off.remove(link);
        }
    }

    fn update_rates(&mut self, changed: &mut Vec<u32>) {
        let mut moved = std::mem::take(&mut self.moved);
        for (link, old) in moved.drain(..) {
            self.links[link as usize].moved = false;
            let new = self.levels[link as usize];
            let low = least(old, new);
            for member in &self.links[link as usize].members {
                // This link does not affect a flow that its cap or its other link holds below both levels.
                let bound = least(member.cap, self.levels[member.other as usize]);
                if bound >= low {
                    update_rate(&mut self.flows, member.flow, least(bound, new), changed);
                }
            }
        }
        self.moved = moved;
        while let Some(flow) = self.stale_flows.pop() {
            let Seats { cap, at, .. } = self.flows[flow as usize];
            let levels = at.iter().flatten().map(|seat| self.levels[seat.link as usize]);
            update_rate(&mut self.flows, flow, levels.fold(cap, least), changed);
        }
    }
}

fn update_rate(flows: &mut [Seats], flow: u32, rate: f64, changed: &mut Vec<u32>) {
    let seats = &mut flows[flow as usize];
    if seats.rate.to_bits() != rate.to_bits() {
        seats.rate = rate;
        changed.push(flow);
    }
}

/// The right side of (1), found by Newton's method from `guess`.
///
/// The sum in (1) is concave in `x`, so one step from anywhere lands at or below the solution. Further steps rise to
/// it: flows that cannot use their part leave the rest to the others, whose parts grow.
fn fill(link: &Link, levels: &[f64], guess: f64) -> f64 {
    if link.members.is_empty() || link.capacity == f64::INFINITY {
        return f64::INFINITY;
    }
    let mut level = link.capacity / link.members.len() as f64;
    let (held, takers) = held_below(guess, &link.members, levels);
    if takers == 0.0 && held <= link.capacity {
        return f64::INFINITY;
    }
    let step = (link.capacity - held) / takers;
    if takers > 0.0 && step > level {
        level = step;
    }
    loop {
        let (held, takers) = held_below(level, &link.members, levels);
        if takers == 0.0 {
            return f64::INFINITY;
        }
        let step = (link.capacity - held) / takers;
        if step <= level {
            return level;
        }
        level = step;
    }
}

/// The sum of the `u_f` below `level`, and the number of the others.
fn held_below(level: f64, members: &[Member], levels: &[f64]) -> (f64, f64) {
    let (mut held, mut takers) = (0.0, 0.0);
    for member in members {
        let bound = least(member.cap, levels[member.other as usize]);
        let is_held = bound < level;
        held += if is_held { bound } else { 0.0 };
        takers += if is_held { 0.0 } else { 1.0 };
    }
    (held, takers)
}

/// Index of the seat that a flow has at this link.
fn side(link: u32) -> usize {
    link as usize % 2
}

fn least(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
