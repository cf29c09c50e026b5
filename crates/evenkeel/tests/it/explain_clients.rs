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

    /// The length that clients force, in blocks of the one speed, if the work of each were so much.
    fn longest(&self, works: &[u64]) -> u64 {
        works
            .iter()
            .zip(&self.clients)
            .map(|(work, client)| work.div_ceil(client.slots.into()))
            .max()
            .unwrap_or(0)
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

/// The best that each kind of help can bring where all speeds are 1, by counting blocks.
fn best(scene: &Scene, help: Help) -> Ratio {
    let (works, speed) = (scene.works(), scene.servers[0].speed.millionths());
    let time = |blocks: u64| Ratio::new(u128::from(blocks) * 1_000_000, speed);
    let total: u64 = works.iter().sum();
    let limit = scene.limit.map_or(Ratio::ZERO, |limit| time(total.div_ceil(limit)));
    let rest = bound(scene, Goal::MaxLoad).max(limit);
    let slots = |change: &dyn Fn(usize, u32) -> u32| {
        let clients =
            scene.clients.iter().enumerate().map(|(c, client)| Client { slots: change(c, client.slots) });
        Scene { clients: clients.collect(), ..scene.clone() }.longest(&works)
    };
    let blocks = match help {
        // The one that limits is the first of those that take longest.
        Help::SlotForOne => (0..works.len())
            .filter(|&c| works[c].div_ceil(scene.clients[c].slots.into()) == scene.longest(&works))
            .map(|c| slots(&|of, slots| slots + u32::from(of == c)))
            .next()
            .unwrap_or(0),
        Help::SlotForAll => slots(&|_, slots| slots + 1),
        Help::EnoughSlots => 0,
        Help::OneMoreClient => (0..=total)
            .find(|level| {
                let too_much = works
                    .iter()
                    .zip(&scene.clients)
                    .map(|(w, c)| w.saturating_sub(level * u64::from(c.slots)));
                too_much.sum::<u64>() <= *level
            })
            .unwrap_or(0),
        Help::Spread => total.div_ceil(scene.clients.iter().map(|c| u64::from(c.slots)).sum()),
    };
    rest.max(time(blocks))
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn promises_are_kept(scene in scenes(kinds(&[Speeds::One, Speeds::Same, Speeds::Tame, Speeds::Wild]))) {
        follow_all(&scene);
    }

    #[test]
    fn in_slots_nothing_better_is_overlooked(scene in scenes(kinds(&[Speeds::One]))) {
        let (batch, cluster) = scene.built();
        let top = optimal::bound(&batch, &cluster, Goal::Length);
        let advice = follow_all(&scene);
        if cluster.is_even() && matches!(top.proof, Proof::Client { .. }) {
            for help in [Help::SlotForOne, Help::SlotForAll, Help::EnoughSlots, Help::OneMoreClient, Help::Spread] {
                let best = best(&scene, help);
                match advice.iter().find(|advice| advice.help == help) {
                    Some(advice) => prop_assert_eq!(advice.bound.value, best, "{:?}", help),
                    // It does not help, or another advice is the same.
                    None => prop_assert!(
                        best == top.value || advice.iter().any(|advice| advice.bound.value == best),
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
