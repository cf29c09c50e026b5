//! Fair sharing of network cards: cases solved by hand, and schedules against progressive filling from scratch.

use evenkeel_sim::network::{FlowId, Network};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const OPEN: f64 = f64::INFINITY;

fn ended_by(net: &mut Network, now: u64) -> Vec<u64> {
    let mut ended = Vec::new();
    net.advance(now, &mut ended);
    ended
}

fn close(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn assert_rates(net: &mut Network, flows: &[FlowId], rates: &[f64]) {
    for (i, (&flow, &rate)) in flows.iter().zip(rates).enumerate() {
        let got = net.rate(flow);
        assert!(close(got, rate), "flow {i}: {got} instead of {rate}");
    }
}

#[test]
fn a_link_is_shared_equally() {
    for n in 1..=5 {
        let mut net = Network::new(&[3.0, OPEN], &[OPEN, OPEN]);
        let flows: Vec<FlowId> = (0..n).map(|tag| net.start(0, 0, 1, 300, OPEN, tag)).collect();
        assert_rates(&mut net, &flows, &vec![3.0 / n as f64; n as usize]);
        assert_eq!(net.next_end(), Some(100 * n));
        assert_eq!(ended_by(&mut net, 100 * n - 1), []);
        assert_eq!(net.n_flows(), n as usize);
        assert_eq!(ended_by(&mut net, 100 * n), (0..n).collect::<Vec<_>>());
        assert_eq!((net.n_flows(), net.next_end()), (0, None));
    }
}

#[test]
fn a_cap_leaves_the_rest_to_others() {
    let mut net = Network::new(&[OPEN; 4], &[10.0, OPEN, OPEN, OPEN]);
    let flows = [(1, 1.0), (2, OPEN), (3, 100.0)].map(|(from, cap)| net.start(0, from, 0, 1000, cap, 0));
    assert_rates(&mut net, &flows, &[1.0, 4.5, 4.5]);
    net.set_cap(0, flows[2], 2.0);
    assert_rates(&mut net, &flows, &[1.0, 7.0, 2.0]);
    net.set_cap(0, flows[1], 0.5);
    assert_rates(&mut net, &flows, &[1.0, 0.5, 2.0]);
}

#[test]
fn a_flow_across_two_links_gets_the_worse() {
    let mut net = Network::new(&[1.0, OPEN, OPEN], &[OPEN, 2.0, OPEN]);
    let flows = [(0, 1), (0, 2), (2, 1)].map(|(from, to)| net.start(0, from, to, 1000, OPEN, 0));
    assert_rates(&mut net, &flows, &[0.5, 0.5, 1.5]);
}

/// Up links of 1, 2, 4; a chain in which each level rests on the one below.
#[test]
fn levels_build_on_one_another() {
    let mut net = Network::new(&[1.0, 4.0, OPEN], &[OPEN, 2.0, 3.0]);
    let pairs = [(0, 1), (0, 2), (2, 1), (1, 2), (1, 0)];
    let flows = pairs.map(|(from, to)| net.start(0, from, to, 1000, OPEN, 0));
    assert_rates(&mut net, &flows, &[0.5, 0.5, 1.5, 2.0, 2.0]);
    net.stop(0, flows[1]);
    assert_rates(&mut net, &flows, &[1.0, 0.0, 1.0, 2.0, 2.0]);
    net.stop(0, flows[4]);
    assert_rates(&mut net, &flows, &[1.0, 0.0, 1.0, 3.0, 0.0]);
}

#[test]
fn a_local_flow_uses_no_link() {
    let mut net = Network::new(&[1.0; 2], &[1.0; 2]);
    let flows =
        [(0, 0, 8.0), (0, 1, OPEN), (1, 1, OPEN)].map(|(from, to, cap)| net.start(5, from, to, 80, cap, 7));
    assert_rates(&mut net, &flows, &[8.0, 1.0, OPEN]);
    assert_eq!(net.next_end(), Some(5));
    assert_eq!(ended_by(&mut net, 5), [7]);
    assert_eq!(net.next_end(), Some(15));
}

#[test]
fn a_stalled_flow_never_ends() {
    let mut net = Network::new(&[0.0, 1.0], &[0.0, 1.0]);
    let dead = net.start(0, 0, 1, 10, OPEN, 0);
    let held = net.start(0, 1, 1, 10, 1.0, 1);
    net.set_cap(4, held, 0.0);
    assert_eq!(net.next_end(), None);
    assert_eq!(ended_by(&mut net, u64::MAX / 2), []);
    assert_eq!((net.moved(0, dead), net.moved(0, held)), (0, 4));
    net.set_cap(0, held, 2.0);
    assert_eq!(net.next_end(), Some(u64::MAX / 2 + 3));
    assert_eq!(ended_by(&mut net, u64::MAX), [1]);
    assert_eq!(net.stop(0, dead), 0);
    assert_eq!(net.n_flows(), 0);
}

/// 100 bytes: 10 ns at 3, 20 ns at 1.5, 30 ns at 1 leave 10, which take 4 ns at 3.
#[test]
fn rates_by_pieces_give_exact_ends() {
    let mut net = Network::new(&[3.0, OPEN], &[OPEN; 2]);
    let first = net.start(0, 0, 1, 100, OPEN, 1);
    assert_eq!(net.next_end(), Some(34));
    let second = net.start(10, 0, 1, 1000, OPEN, 2);
    assert_eq!(net.next_end(), Some(57));
    let third = net.start(30, 0, 1, 1000, OPEN, 3);
    assert_eq!(net.next_end(), Some(70));
    assert_eq!([first, second, third].map(|flow| net.moved(60, flow)), [90, 60, 30]);
    assert_eq!((net.stop(60, second), net.stop(60, third)), (60, 30));
    assert_eq!(net.next_end(), Some(64));
    assert_eq!(ended_by(&mut net, 63), []);
    assert_eq!(ended_by(&mut net, 64), [1]);
}

/// One long step passes the ends in between, each of which speeds up the rest.
#[test]
fn a_long_step_ends_flows_one_by_one() {
    let mut net = Network::new(&[3.0, OPEN], &[OPEN; 2]);
    for (tag, bytes) in [(1, 100), (2, 10), (3, 40), (4, 10)] {
        net.start(0, 0, 1, bytes, OPEN, tag);
    }
    // 4 at 3/4: 2 and 4 end at 14 (13.3). 2 at 3/2 with 29.5 left of 3: 20 ns. 59.5 left of 1 - 0.5: 20 ns at 3.
    assert_eq!(ended_by(&mut net, 53), [2, 4, 3]);
    assert_eq!(net.next_end(), Some(54));
    assert_eq!(ended_by(&mut net, 1000), [1]);
}

/// Thirds are not floats, yet 7 ns at two thirds and 7 at one make 7 bytes.
#[test]
fn rounding_does_not_end_late() {
    for pieces in 1..=100 {
        let mut net = Network::new(&[OPEN], &[OPEN]);
        let flow = net.start(0, 0, 0, 7 * pieces, OPEN, 1);
        for piece in 0..pieces {
            assert_eq!(net.moved(14 * piece, flow), 7 * piece);
            net.set_cap(14 * piece, flow, 2.0 / 3.0);
            net.set_cap(14 * piece + 7, flow, 1.0 / 3.0);
        }
        assert_eq!(net.next_end(), Some(14 * pieces));
    }
}

#[test]
fn nothing_to_move_ends_at_once() {
    let mut net = Network::new(&[0.0; 2], &[0.0; 2]);
    let ids = [5, 6].map(|tag| net.start(3, 0, 1, 0, 0.0, tag));
    assert_eq!((net.next_end(), net.n_flows()), (Some(3), 2));
    assert_eq!(net.stop(3, ids[0]), 0);
    assert_eq!(ended_by(&mut net, 0), [6]);
    assert_eq!((net.next_end(), net.n_flows()), (None, 0));
}

#[test]
fn ids_of_flows_that_are_gone_do_nothing() {
    let mut net = Network::new(&[1.0; 2], &[1.0; 2]);
    let old = net.start(0, 0, 1, 10, OPEN, 1);
    assert_eq!(ended_by(&mut net, 10), [1]);
    let new = net.start(10, 0, 1, 10, OPEN, 2);
    assert_ne!(old, new);
    net.set_cap(15, old, 0.0);
    assert_eq!((net.stop(15, old), net.moved(15, old), net.rate(old).to_bits()), (0, 0, 0));
    assert_eq!((net.moved(15, new), net.next_end()), (5, Some(20)));
}

/// A flow that has ended and was not told can still be stopped; it leaves once.
#[test]
fn an_end_not_yet_told_can_be_taken_back() {
    let mut net = Network::new(&[2.0; 2], &[2.0; 2]);
    let flows = [1, 2].map(|tag| net.start(0, 0, 1, 10, OPEN, tag));
    assert_eq!(net.moved(50, flows[0]), 10);
    assert_eq!((net.next_end(), net.n_flows()), (Some(50), 2));
    assert_eq!(net.stop(50, flows[0]), 10);
    assert_eq!(ended_by(&mut net, 50), [2]);
}

#[test]
fn time_does_not_go_back() {
    let mut net = Network::new(&[1.0; 2], &[1.0; 2]);
    assert_eq!(ended_by(&mut net, 100), []);
    assert_eq!(ended_by(&mut net, 3), []);
    let flow = net.start(7, 0, 1, 10, OPEN, 1);
    assert_eq!((net.moved(50, flow), net.next_end()), (0, Some(110)));
}

#[test]
fn extreme_values_are_harmless() {
    let wild = [0.0, -1.0, f64::NAN, 5e-324, 1e-300, 1.0, 1e300, f64::MAX, OPEN];
    for up in wild {
        for down in wild {
            let mut net = Network::new(&[up, down], &[up, down]);
            let mut flows = Vec::new();
            for (i, cap) in wild.into_iter().enumerate() {
                flows.push(net.start(0, 0, 1, u64::MAX, cap, i as u64));
                flows.push(net.start(1, 1, 1, 1, cap, i as u64));
                flows.push(net.start(2, 1, 0, 1 << 60, cap, i as u64));
                assert!(flows.iter().all(|&flow| net.rate(flow) >= 0.0));
            }
            let mut now = 0;
            while let Some(end) = net.next_end() {
                assert!(end >= now);
                now = end;
                assert!(!ended_by(&mut net, now).is_empty());
            }
            ended_by(&mut net, u64::MAX);
            for flow in flows {
                net.set_cap(u64::MAX, flow, 1.0);
                net.rate(flow);
                net.stop(u64::MAX, flow);
            }
            assert_eq!((net.n_flows(), net.next_end()), (0, None));
        }
    }
}

/// A flow as the check sees it.
#[derive(Debug, Clone)]
struct Seen {
    id: FlowId,
    tag: u64,
    from: usize,
    to: usize,
    bytes: u64,
    cap: f64,
    left: f64,
}

impl Seen {
    /// Up links are the first `n_hosts`, down links the rest.
    fn links(&self, n_hosts: usize) -> Vec<usize> {
        if self.from == self.to { vec![] } else { vec![self.from, n_hosts + self.to] }
    }
}

/// Progressive filling: raise all rates together; whoever meets a cap or a full link stays there.
fn progressive_filling(capacities: &[f64], flows: &[Seen]) -> Vec<f64> {
    let n_hosts = capacities.len() / 2;
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    while rates.iter().any(Option::is_none) {
        let mut used = vec![0.0; capacities.len()];
        let mut n_open = vec![0_u32; capacities.len()];
        for (flow, rate) in flows.iter().zip(&rates) {
            for link in flow.links(n_hosts) {
                used[link] += rate.unwrap_or(0.0);
                n_open[link] += u32::from(rate.is_none());
            }
        }
        let reach = |flow: &Seen| {
            let shares =
                flow.links(n_hosts).into_iter().map(|l| (capacities[l] - used[l]) / f64::from(n_open[l]));
            shares.fold(flow.cap, f64::min).max(0.0)
        };
        let reaches: Vec<f64> = flows.iter().map(reach).collect();
        let open = || (0..flows.len()).filter(|&i| rates[i].is_none());
        let low = open().map(|i| reaches[i]).fold(OPEN, f64::min);
        for i in open().filter(|&i| reaches[i] <= low).collect::<Vec<_>>() {
            rates[i] = Some(low);
        }
    }
    rates.into_iter().flatten().collect()
}

#[derive(Debug, Clone)]
enum Op {
    Start { from: Index, to: Index, bytes: u64, cap: f64 },
    Stop(Index),
    SetCap(Index, f64),
    Wait(u64),
    ToNextEnd,
}

/// A network under test beside the flows it should have.
struct Twin {
    net: Network,
    capacities: Vec<f64>,
    flows: Vec<Seen>,
    now: u64,
    n_started: u64,
    /// Everything the network has answered.
    log: Vec<u64>,
}

impl Twin {
    fn new(up: &[f64], down: &[f64]) -> Self {
        let capacities = [up, down].concat();
        Self { net: Network::new(up, down), capacities, flows: vec![], now: 0, n_started: 0, log: vec![] }
    }

    fn apply(&mut self, op: &Op) {
        let n_hosts = self.capacities.len() / 2;
        match *op {
            Op::Start { from, to, bytes, cap } => {
                let (from, to, tag) = (from.index(n_hosts), to.index(n_hosts), self.n_started);
                let id = self.net.start(self.now, from as u32, to as u32, bytes, cap, tag);
                self.flows.push(Seen { id, tag, from, to, bytes, cap, left: bytes as f64 });
                self.n_started += 1;
            }
            Op::Stop(index) if !self.flows.is_empty() => {
                let flow = self.flows.remove(index.index(self.flows.len()));
                self.check_moved(&flow);
                let (before, moved) = (self.net.moved(self.now, flow.id), self.net.stop(self.now, flow.id));
                assert_eq!(before, moved);
                assert_eq!(self.net.stop(self.now, flow.id), 0);
            }
            Op::SetCap(index, cap) if !self.flows.is_empty() => {
                let index = index.index(self.flows.len());
                self.flows[index].cap = cap;
                self.net.set_cap(self.now, self.flows[index].id, cap);
            }
            Op::Wait(ns) => self.run(self.now + ns),
            Op::ToNextEnd => {
                if let Some(end) = self.net.next_end() {
                    self.run(end);
                }
            }
            Op::Stop(_) | Op::SetCap(..) => {}
        }
    }

    /// Goes to `now` by way of every end; one long step must come to the same.
    fn run(&mut self, now: u64) {
        let mut leap = self.net.clone();
        let start = self.log.len();
        loop {
            self.check_rates();
            let next = self.net.next_end().map_or(now, |end| end.min(now));
            assert!(next >= self.now);
            self.step(next);
            if next == now && self.net.next_end().is_none_or(|end| end > now) {
                break;
            }
        }
        assert_eq!(ended_by(&mut leap, now), self.log[start..]);
        for flow in &self.flows {
            assert_eq!(leap.rate(flow.id).to_bits(), self.net.rate(flow.id).to_bits());
            assert_eq!(leap.moved(now, flow.id), self.net.moved(now, flow.id));
        }
    }

    /// Goes to `now`, before which no flow ends.
    fn step(&mut self, now: u64) {
        let elapsed = (now - self.now) as f64;
        let rates = progressive_filling(&self.capacities, &self.flows);
        let mut slack = vec![];
        for (flow, rate) in self.flows.iter_mut().zip(rates) {
            let open = rate == OPEN;
            flow.left = if open { 0.0 } else { flow.left - rate * elapsed };
            slack.push(if open { 0.0 } else { rate });
        }
        self.now = now;
        let ended = ended_by(&mut self.net, now);
        assert!(ended.is_sorted(), "at one instant the older end first: {ended:?}");
        for (flow, slack) in self.flows.iter().zip(slack) {
            let tiny = 1e-6 * (1.0 + flow.bytes as f64 * 1e-6);
            match ended.contains(&flow.tag) {
                true => assert!(flow.left <= tiny && flow.left >= -slack - tiny, "{flow:?} ended at {now}"),
                false => assert!(flow.left >= -tiny, "{flow:?} did not end by {now}"),
            }
        }
        self.flows.retain(|flow| !ended.contains(&flow.tag));
        self.log.extend(ended);
        assert_eq!(self.net.n_flows(), self.flows.len());
        for flow in self.flows.clone() {
            self.check_moved(&flow);
        }
    }

    fn check_moved(&mut self, flow: &Seen) {
        let moved = self.net.moved(self.now, flow.id);
        assert!(moved <= flow.bytes);
        let off = (flow.bytes as f64 - flow.left) - moved as f64;
        let tiny = 1e-6 * (1.0 + flow.bytes as f64 * 1e-6);
        assert!((-tiny..1.0 + tiny).contains(&off), "{flow:?} has moved {moved}");
    }

    fn check_rates(&mut self) {
        // What has ended and is not told has no rate; the steps tell everything else.
        let flows: Vec<Seen> = self.flows.iter().filter(|flow| flow.bytes > 0).cloned().collect();
        let naive = progressive_filling(&self.capacities, &flows);
        let rates: Vec<f64> = flows.iter().map(|flow| self.net.rate(flow.id)).collect();
        for ((flow, &rate), &naive) in flows.iter().zip(&rates).zip(&naive) {
            assert!(close(rate, naive), "{flow:?}: {rate} instead of {naive}");
        }
        self.check_bottlenecks(&flows, &rates);
    }

    fn check_bottlenecks(&self, flows: &[Seen], rates: &[f64]) {
        let n_hosts = self.capacities.len() / 2;
        let mut used = vec![0.0; self.capacities.len()];
        let mut most = vec![0.0_f64; self.capacities.len()];
        for (flow, &rate) in flows.iter().zip(rates) {
            for link in flow.links(n_hosts) {
                used[link] += rate;
                most[link] = most[link].max(rate);
            }
        }
        let full = |link: usize| used[link] >= self.capacities[link] * (1.0 - 1e-9);
        assert!(used.iter().zip(&self.capacities).all(|(&used, &capacity)| used <= capacity * (1.0 + 1e-9)));
        for (flow, &rate) in flows.iter().zip(rates) {
            let held = |link: usize| full(link) && rate >= most[link] * (1.0 - 1e-9);
            assert!(rate >= flow.cap * (1.0 - 1e-9) || flow.links(n_hosts).into_iter().any(held), "{flow:?}");
        }
    }
}

/// Four flows a host on equal links, where changes reach far and many levels tie.
#[test]
fn rates_stay_right_through_thousands_of_changes() {
    const N_HOSTS: u64 = 200;
    let mut state = 1_u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut twin = Twin::new(&[12.5; N_HOSTS as usize], &[12.5; N_HOSTS as usize]);
    for tag in 0..10_000 {
        while twin.flows.len() == 4 * N_HOSTS as usize {
            twin.now = twin.net.next_end().expect("every flow ends");
            let ended = ended_by(&mut twin.net, twin.now);
            twin.flows.retain(|flow| !ended.contains(&flow.tag));
        }
        let (from, to, bytes) = (draw(N_HOSTS) as usize, draw(N_HOSTS) as usize, 1 + draw(100_000));
        let id = twin.net.start(twin.now, from as u32, to as u32, bytes, 10.0, tag);
        twin.flows.push(Seen { id, tag, from, to, bytes, cap: 10.0, left: bytes as f64 });
        if tag % 1000 == 999 {
            twin.check_rates();
        }
    }
}

fn capacity() -> impl Strategy<Value = f64> {
    prop_oneof![select(vec![1.0, 2.0, 3.0, 12.5, 1.0 / 3.0, 0.1, OPEN, 0.0]), 0.01..20.0]
}

fn cap() -> impl Strategy<Value = f64> {
    prop_oneof![3 => Just(OPEN), 2 => capacity()]
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![1 => Just(0), 8 => 1..2000_u64, 2 => 1..1_000_000_000_u64];
    let start = (any::<Index>(), any::<Index>(), bytes, cap());
    prop_oneof![
        6 => start.prop_map(|(from, to, bytes, cap)| Op::Start { from, to, bytes, cap }),
        1 => any::<Index>().prop_map(Op::Stop),
        2 => (any::<Index>(), cap()).prop_map(|(index, cap)| Op::SetCap(index, cap)),
        2 => (0..1000_u64).prop_map(Op::Wait),
        2 => Just(Op::ToNextEnd),
    ]
}

fn hosts(most: usize) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    (1..=most).prop_flat_map(|n| (vec(capacity(), n), vec(capacity(), n)))
}

/// Runs a schedule and returns all that was answered, to the bit.
fn run((up, down): &(Vec<f64>, Vec<f64>), ops: &[Op]) -> Vec<u64> {
    let mut twin = Twin::new(up, down);
    for op in ops {
        twin.apply(op);
    }
    twin.run(twin.now);
    for flow in twin.flows.clone() {
        twin.log.push(twin.net.rate(flow.id).to_bits());
        twin.log.push(twin.net.moved(twin.now, flow.id));
    }
    twin.log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_hosts_share_as_by_progressive_filling(hosts in hosts(4), ops in vec(op(), 1..60)) {
        let log = run(&hosts, &ops);
        prop_assert_eq!(log, run(&hosts, &ops));
    }

    /// All at once, then one step: each flow is told with all its bytes moved or stopped with some left, and no link
    /// has carried more than it can.
    #[test]
    fn bytes_are_conserved(
        hosts in hosts(3),
        starts in vec((0..3_u32, 0..3_u32, 1..5000_u64, cap()), 1..30),
        now in 0..5000_u64,
    ) {
        let n_hosts = hosts.0.len() as u32;
        let mut net = Network::new(&hosts.0, &hosts.1);
        let ids: Vec<FlowId> = starts
            .iter()
            .zip(0..)
            .map(|(&(from, to, bytes, cap), tag)| net.start(0, from % n_hosts, to % n_hosts, bytes, cap, tag))
            .collect();
        let ended = ended_by(&mut net, now);
        let mut carried = [hosts.0, hosts.1].concat().into_iter().map(|c| (c * now as f64, 0)).collect::<Vec<_>>();
        for ((&(from, to, bytes, _), &id), tag) in starts.iter().zip(&ids).zip(0..) {
            let stopped = net.stop(now, id);
            let moved = if ended.contains(&tag) { bytes } else { stopped };
            prop_assert_eq!(moved == bytes, ended.contains(&tag));
            prop_assert!(moved < bytes || stopped == 0);
            if from % n_hosts != to % n_hosts {
                carried[(from % n_hosts) as usize].1 += moved;
                carried[(n_hosts + to % n_hosts) as usize].1 += moved;
            }
        }
        prop_assert_eq!(net.n_flows(), 0);
        for (most, moved) in carried {
            prop_assert!(most.is_nan() || moved as f64 <= most + 1e-6, "{moved} of {most}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_hosts_share_as_by_progressive_filling(hosts in hosts(24), ops in vec(op(), 200..300)) {
        run(&hosts, &ops);
    }
}
