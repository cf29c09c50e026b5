//! Advice for clients keeps its promises when it is followed without the core's help, and nothing better was overlooked.

use evenkeel::bound::Proof;
use evenkeel::explain::{Change, ClientAdvice, Help, advise_slots, explain};
use evenkeel::model::{Batch, Client, ClientId, Cluster, ExtraCopy, Move, Ratio, ServerId, Speed};
use evenkeel::select::{Goal, optimal};
use proptest::prelude::*;

use crate::support::{Case, Request, Scene, Speeds, batch, config, kinds, planned, scenes};

impl Scene {
    fn built(&self) -> (Batch, Cluster) {
        let batch = self.case.batch();
        let cluster = Cluster::new(&batch, self.servers.clone(), self.clients.clone(), self.limit);
        (batch, cluster.expect("a valid cluster"))
    }

    /// The scene after a change for clients.
    fn changed(&self, change: &Change) -> Self {
        let mut scene = self.clone();
        match change {
            Change::Slots(slots) => {
                slots.iter().for_each(|&(client, slots)| scene.clients[client.index()].slots = slots);
            }
            Change::Moves { moves, new_client } => {
                if new_client.is_some() {
                    scene.clients.push(Client { slots: 1 });
                    scene.case.n_clients += 1;
                }
                moves.iter().for_each(|moved| scene.case.give(moved));
            }
            other => panic!("{other:?} is not for clients"),
        }
        scene
    }

    /// When a client with so many slots has received so many blocks: in whole slots at speed 1.
    fn time_of(&self, blocks: u64, slots: u32) -> Ratio {
        let speed = self.servers[0].speed;
        match speed == Speed::ONE {
            true => Ratio::from(blocks.div_ceil(slots.into())),
            false => Ratio::new(
                u128::from(blocks) * 1_000_000,
                speed.millionths().checked_mul(slots.into()).expect("it fits"),
            ),
        }
    }

    /// When the last client is done, if the slots of each were so many.
    fn longest(&self, slots: impl Fn(usize) -> u32) -> Ratio {
        let works = self.works().into_iter().enumerate();
        works.map(|(c, work)| self.time_of(work, slots(c))).max().unwrap_or(Ratio::ZERO)
    }

    /// The earliest time by which those that may receive have room for what all have too much, of all times at which any
    /// number of slots may be done with any number of blocks.
    fn earliest(&self, slots: &[u32], may_receive: impl Fn(usize) -> bool) -> Ratio {
        let mut works = self.works();
        works.resize(slots.len(), 0);
        let total: u64 = works.iter().sum();
        let cap = |slots: u32, time: Ratio| {
            (0..=total).rev().find(|&blocks| self.time_of(blocks, slots) <= time).unwrap_or(0)
        };
        let is_enough = |time: &Ratio| {
            let caps: Vec<u64> = slots.iter().map(|&slots| cap(slots, *time)).collect();
            let excess: u64 = works.iter().zip(&caps).map(|(work, cap)| work.saturating_sub(*cap)).sum();
            let receivers = (0..slots.len()).filter(|&c| may_receive(c));
            excess <= receivers.map(|c| caps[c].saturating_sub(works[c])).sum()
        };
        let times =
            slots.iter().flat_map(|&slots| (0..=total).map(move |blocks| self.time_of(blocks, slots)));
        times.filter(is_enough).min().unwrap_or(Ratio::ZERO)
    }

    fn works(&self) -> Vec<u64> {
        let mut works = vec![0; self.case.n_clients];
        self.case.requests.iter().for_each(|request| works[request.client] += request.blocks);
        works
    }
}

impl Case {
    fn give(&mut self, &Move { request, to, blocks }: &Move) {
        let from = &mut self.requests[request as usize];
        assert!(
            from.client != to.index() && 0 < blocks && blocks <= from.blocks,
            "{request} {to:?} {blocks}"
        );
        from.blocks -= blocks;
        let given = Request { client: to.index(), blocks, replicas: from.replicas.clone() };
        self.requests.push(given);
    }
}

fn bound(scene: &Scene, goal: Goal) -> Ratio {
    let (batch, cluster) = scene.built();
    optimal::bound(&batch, &cluster, goal).value
}

/// What is advised for a scene, each followed in two ways.
fn follow_all(scene: &Scene) -> Vec<ClientAdvice> {
    let (batch, cluster) = scene.built();
    let explanation = explain(&batch, &cluster, Goal::Length);
    let advice = explanation.clients;
    assert!(advice.is_empty() || matches!(explanation.bound.proof, Proof::Client { .. }));
    for advice in &advice {
        assert!(advice.bound.value < explanation.bound.value, "{advice:?}");
        assert_eq!(bound(&scene.changed(&advice.change), Goal::Length), advice.bound.value, "{advice:?}");
        let (batch, cluster) = advice.change.apply(&batch, &cluster).expect("it fits");
        assert_eq!(batch.total_blocks(), scene.works().iter().sum::<u64>());
        let planned = planned(&batch, &cluster);
        assert_eq!(planned.bound.value, advice.bound.value, "{advice:?}");
        if cluster.is_even() {
            assert_eq!(planned.schedule.length, advice.bound.value, "{advice:?}");
        }
    }
    assert!(explain(&batch, &cluster, Goal::MaxLoad).clients.is_empty());
    advice
}

/// The best that each kind of help can bring where servers have one speed, by counting blocks.
fn best(scene: &Scene, help: Help, limiting: ClientId) -> Ratio {
    let total: u64 = scene.works().iter().sum();
    let limit = scene.limit.map_or(Ratio::ZERO, |limit| scene.time_of(total, limit as u32));
    let rest = bound(scene, Goal::MaxLoad).max(limit);
    let slots: Vec<u32> = scene.clients.iter().map(|client| client.slots).collect();
    let time = match help {
        Help::SlotForOne => scene.longest(|c| slots[c] + u32::from(c == limiting.index())),
        Help::SlotForAll => scene.longest(|c| slots[c] + 1),
        Help::EnoughSlots => Ratio::ZERO,
        Help::OneMoreClient => scene.earliest(&[&slots[..], &[1]].concat(), |c| c == slots.len()),
        Help::Spread => scene.earliest(&slots, |_| true),
    };
    rest.max(time)
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn promises_are_kept(scene in scenes(kinds(&[Speeds::One, Speeds::Tame, Speeds::Wild]))) {
        follow_all(&scene);
    }

    #[test]
    fn at_one_speed_nothing_better_is_overlooked(scene in scenes(kinds(&[Speeds::One, Speeds::Same]))) {
        let (batch, cluster) = scene.built();
        let top = optimal::bound(&batch, &cluster, Goal::Length);
        let advice = follow_all(&scene);
        if let (true, Proof::Client { client, .. }) = (cluster.is_even(), &top.proof) {
            for help in [Help::SlotForOne, Help::SlotForAll, Help::EnoughSlots, Help::OneMoreClient, Help::Spread] {
                let best = best(&scene, help, *client).rounded();
                match advice.iter().find(|advice| advice.help == help) {
                    Some(advice) => prop_assert_eq!(advice.bound.value.rounded(), best, "{:?}", help),
                    // It does not help, or another advice is the same.
                    None => prop_assert!(
                        best == top.value.rounded() || advice.iter().any(|advice| advice.bound.value.rounded() == best),
                        "{:?}", help
                    ),
                }
            }
            // Not one slot more than is needed.
            if let Some(ClientAdvice { change: Change::Slots(slots), bound: promised, .. }) =
                advice.iter().find(|advice| advice.help == Help::EnoughSlots)
            {
                for k in 0..slots.len() {
                    let mut fewer = slots.clone();
                    fewer[k].1 -= 1;
                    let fewer = bound(&scene.changed(&Change::Slots(fewer)), Goal::Length);
                    prop_assert!(fewer > promised.value);
                }
            }
        }
    }
}

/// One client with one slot reads from three servers.
#[test]
fn a_client_alone() {
    let requests = ["s0", "s1", "s2", "s0", "s1", "s2"].map(|server| ("c", 1, [server]));
    let requests: Vec<(&str, u64, &[&str])> = requests.iter().map(|(c, b, s)| (*c, *b, &s[..])).collect();
    let batch = batch(&requests);
    let cluster = Cluster::equal(&batch);
    let explanation = explain(&batch, &cluster, Goal::Length);
    let told: Vec<_> = explanation.clients.iter().map(|advice| (advice.help, advice.bound.value)).collect();
    let (two, three) = (Ratio::from(2), Ratio::from(3));
    assert_eq!(told, [(Help::SlotForOne, three), (Help::EnoughSlots, two), (Help::OneMoreClient, three)]);
    let hint = advise_slots(&batch, &cluster, &explanation.bound).expect("a hint");
    assert_eq!(hint.change, Change::Slots(vec![(ClientId(0), 3)]));
    let Change::Moves { moves, new_client } = &explanation.clients[2].change else { panic!("moves") };
    assert_eq!((moves.len(), new_client.as_deref()), (3, Some("c-2")));

    // With as many slots as there are servers there is nothing to hint at.
    let servers = cluster.servers().to_vec();
    let cluster = Cluster::new(&batch, servers, vec![Client { slots: 3 }], None).expect("a valid cluster");
    let bound = optimal::bound(&batch, &cluster, Goal::Length);
    assert!(advise_slots(&batch, &cluster, &bound).is_none());
}

/// Whatever stands in a file of advice is refused or can be planned.
#[test]
fn changes_that_do_not_fit() {
    let batch = batch(&[("c", 2, &["s0"]), ("d", 1, &["s0", "s1"])]);
    let cluster = Cluster::equal(&batch);
    let copy = |request, to, blocks| ExtraCopy { request, from: ServerId(0), to: ServerId(to), blocks };
    let moved = |request, to, blocks| Move { request, to: ClientId(to), blocks };
    let moves = |moves: &[Move], name: Option<&str>| Change::Moves {
        moves: moves.to_vec(),
        new_client: name.map(str::to_owned),
    };
    let unfit = [
        Change::Copies(vec![copy(2, 1, 1)]),
        Change::Copies(vec![copy(0, 2, 1)]),
        Change::Copies(vec![copy(0, 1, 3)]),
        Change::Copies(vec![copy(0, 1, 2), copy(0, 1, 1)]),
        Change::Copies(vec![copy(0, 1, 0)]),
        Change::Copies(vec![copy(1, 1, 1)]),
        Change::Speed(ServerId(2), Speed::ONE),
        Change::Slots(vec![(ClientId(2), 1)]),
        Change::Slots(vec![(ClientId(0), 0)]),
        Change::Slots(vec![(ClientId(0), u32::MAX)]),
        moves(&[moved(2, 0, 1)], None),
        moves(&[moved(0, 2, 1)], None),
        moves(&[moved(0, 1, 3)], None),
        moves(&[moved(0, 1, 0)], None),
        moves(&[moved(0, 1, 1), moved(0, 1, 2)], None),
        moves(&[], Some("d")),
        moves(&[], Some("")),
    ];
    for change in unfit {
        assert!(change.apply(&batch, &cluster).is_err(), "{change:?}");
    }
    let (after, _) = moves(&[moved(0, 2, 1)], Some("e")).apply(&batch, &cluster).expect("it fits");
    let told: Vec<_> = (0..3).map(|i| (after.clients().name(after.client(i).0), after.blocks(i))).collect();
    assert_eq!(told, [("c", 1), ("d", 1), ("e", 1)]);
    // Nothing is left of a request that was copied to two servers: it is gone.
    let copies = Change::Copies(vec![copy(0, 1, 1), copy(0, 1, 1)]);
    let (after, _) = copies.apply(&batch, &cluster).expect("it fits");
    assert_eq!((after.n_requests(), after.total_blocks()), (3, 3));
}
