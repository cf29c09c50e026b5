//! The redirect table against a model that knows the place of each single byte, and against the data
//! themselves.

use std::collections::BTreeMap;

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::MemberId;
use evenkeel::redirect::{BadRow, Changed, Extent, Piece, Redirect, RedirectTable, TooLong, Version, Wrote};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::config;

const N_OBJECTS: u8 = 3;
const N_BYTES: u64 = 48;
const N_SERVERS: u32 = 4;
const HOME: MemberId = MemberId(0);
/// The value of bytes that were deleted or never written: nobody may read them.
const DEAD: u64 = u64::MAX;

/// Where the bytes that the model follows begin: the first an object has, some in the middle, the last.
fn base(object: u8) -> u64 {
    [0, 1 << 40, u64::MAX - N_BYTES][object as usize]
}

fn extent(start: u64, bytes: u64) -> Extent {
    Extent::new(start, bytes).expect("within the largest object")
}

fn away(start: u64, bytes: u64, server: u32, version: u64) -> Redirect {
    Redirect { extent: extent(start, bytes), server: MemberId(server), version: Version(version) }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        object: u8,
        start: u64,
        bytes: u64,
        server: u32,
    },
    /// The maintainer copies a piece of what is away in this range, and does not finish.
    Copy {
        object: u8,
        start: u64,
        bytes: u64,
    },
    /// It finishes one of the copies that it has begun.
    Finish {
        which: usize,
    },
    Lookup {
        object: u8,
        start: u64,
        bytes: u64,
    },
}

/// A copy that the maintainer has beside what is at home.
type Copied = (u8, Redirect, Vec<u64>);

struct World {
    table: RedirectTable<u8>,
    /// By object and byte: where the table must say it is.
    places: Vec<Vec<Option<(MemberId, Version)>>>,
    /// By object and byte: what was written last.
    truth: Vec<Vec<u64>>,
    /// By server, object and byte: what is stored.
    stored: Vec<Vec<Vec<u64>>>,
    copies: Vec<Copied>,
    n_writes: u64,
    n_moved: u32,
    n_aborted: u32,
}

impl World {
    fn new() -> Self {
        let objects = vec![vec![DEAD; N_BYTES as usize]; N_OBJECTS.into()];
        Self {
            table: RedirectTable::new(HOME),
            places: vec![vec![None; N_BYTES as usize]; N_OBJECTS.into()],
            truth: objects.clone(),
            stored: vec![objects; N_SERVERS as usize],
            copies: Vec::new(),
            n_writes: 0,
            n_moved: 0,
            n_aborted: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { object, start, bytes, server } => {
                self.write(object, start, bytes, MemberId(server));
            }
            Step::Copy { object, start, bytes } => {
                for piece in self.table.lookup(&object, extent(base(object) + start, bytes)) {
                    if let Piece::Away(read) = piece {
                        let data = self.stored[read.server.index()][object as usize]
                            [range(object, read.extent)]
                        .to_vec();
                        self.copies.push((object, read, data));
                    }
                }
            }
            Step::Finish { which } if self.copies.is_empty() => _ = which,
            Step::Finish { which } => {
                let copy = self.copies.swap_remove(which % self.copies.len());
                self.finish(&copy);
            }
            Step::Lookup { object, start, bytes } => self.lookup(object, start, bytes),
        }
        self.check_counts();
    }

    fn write(&mut self, object: u8, start: u64, bytes: u64, server: MemberId) {
        let extent = extent(base(object) + start, bytes);
        let Wrote { version, stale } = self.table.wrote(&object, extent, server);
        self.n_writes += u64::from(bytes > 0);
        assert_eq!(version, Version(self.n_writes), "a version for each write");
        let o = object as usize;
        let mut is_stale = [None; N_BYTES as usize];
        for old in stale {
            for byte in range(object, old.extent) {
                assert_eq!(is_stale[byte].replace(old.server), None, "told twice");
                assert_eq!(self.places[o][byte], Some((old.server, old.version)));
                self.stored[old.server.index()][o][byte] = DEAD;
            }
        }
        for byte in range(object, extent) {
            let old = self.places[o][byte].map(|(server, _)| server).filter(|&old| old != server);
            assert_eq!(
                is_stale[byte].take(),
                old,
                "stale is what is at neither the default nor the new server"
            );
            self.places[o][byte] = (server != HOME).then_some((server, version));
            self.truth[o][byte] = self.n_writes;
            self.stored[server.index()][o][byte] = self.n_writes;
        }
        assert_eq!(is_stale, [None; N_BYTES as usize], "only what was written can become stale");
    }

    fn finish(&mut self, (object, read, data): &Copied) {
        let o = *object as usize;
        let bytes = range(*object, read.extent);
        let is_same = self.places[o][bytes.clone()].iter().all(|&p| p == Some((read.server, read.version)));
        let expected = if is_same { Ok(()) } else { Err(Changed) };
        assert_eq!(self.table.compare_and_remove(object, *read), expected, "{read:?}");
        if is_same {
            self.places[o][bytes.clone()].fill(None);
            self.stored[HOME.index()][o][bytes.clone()].copy_from_slice(data);
            self.stored[read.server.index()][o][bytes].fill(DEAD);
            self.n_moved += 1;
        } else {
            self.n_aborted += 1;
        }
    }

    /// All that is read is what was written last, from the one place that has it.
    fn lookup(&self, object: u8, start: u64, bytes: u64) {
        let asked = extent(base(object) + start, bytes);
        let mut at = asked.start();
        for piece in self.table.lookup(&object, asked) {
            assert_eq!(piece.extent().start(), at, "pieces are in order and leave nothing out");
            assert!(!piece.extent().is_empty());
            at = piece.extent().end();
            let place = match piece {
                Piece::Home(_) => None,
                Piece::Away(Redirect { server, version, .. }) => Some((server, version)),
            };
            let server = place.map_or(HOME, |(server, _)| server);
            for byte in range(object, piece.extent()) {
                assert_eq!(self.places[object as usize][byte], place);
                let stored = self.stored[server.index()][object as usize][byte];
                assert_eq!(
                    stored, self.truth[object as usize][byte],
                    "object {object} byte {byte} at {server:?}"
                );
            }
        }
        assert_eq!(at, asked.end());
    }

    /// There are as few extents as there can be.
    fn check_counts(&self) {
        let runs =
            |places: &Vec<Option<_>>| places.chunk_by(|a, b| a == b).filter(|run| run[0].is_some()).count();
        assert_eq!(self.table.n_extents(), self.places.iter().map(runs).sum::<usize>());
        let is_away = |places: &&Vec<Option<_>>| places.iter().any(Option::is_some);
        assert_eq!(self.table.n_objects(), self.places.iter().filter(is_away).count());
        assert_eq!(self.table.bytes(), self.places.iter().flatten().flatten().count() as u128);
        assert_eq!(self.table.last_version(), Version(self.n_writes));
    }

    /// Rows by age tell the same, and rebuild the same table, also if rows were cut in two.
    fn check_rows(&self) {
        let rows: Vec<(u8, Redirect)> = self.table.oldest_first(None).map(|(&o, row)| (o, row)).collect();
        assert!(rows.is_sorted_by_key(|(_, row)| (row.version, row.extent.start())));
        let mut places = vec![vec![None; N_BYTES as usize]; N_OBJECTS.into()];
        for &(object, row) in &rows {
            places[object as usize][range(object, row.extent)].fill(Some((row.server, row.version)));
        }
        assert_eq!(places, self.places);
        let mut again = RedirectTable::resume(HOME, self.table.last_version()).expect("few writes");
        for &(object, row) in rows.iter().rev() {
            let (start, half) = (row.extent.start(), row.extent.bytes() / 2);
            let (a, b) = (extent(start, half), extent(start + half, row.extent.bytes() - half));
            for extent in [b, a] {
                again.restore(&object, Redirect { extent, ..row }).expect("a row of a table");
            }
        }
        assert_eq!(again.oldest_first(None).map(|(&o, row)| (o, row)).collect::<Vec<_>>(), rows);
        assert_eq!((again.n_objects(), again.bytes()), (self.table.n_objects(), self.table.bytes()));
    }

    fn check_all(&self) {
        (0..N_OBJECTS).for_each(|object| self.lookup(object, 0, N_BYTES));
        self.check_rows();
    }
}

/// The places in the model of an extent.
fn range(object: u8, extent: Extent) -> std::ops::Range<usize> {
    (extent.start() - base(object)) as usize..(extent.end() - base(object)) as usize
}

fn steps() -> impl Strategy<Value = Step> {
    let place =
        || (0..N_OBJECTS, 0..=N_BYTES, 0..=N_BYTES).prop_map(|(o, a, b)| (o, a.min(b), a.abs_diff(b)));
    let write = |((object, start, bytes), server)| Step::Write { object, start, bytes, server };
    prop_oneof![
        3 => (place(), 0..N_SERVERS).prop_map(write),
        1 => place().prop_map(|(object, start, bytes)| Step::Copy { object, start, bytes }),
        1 => (0..8_usize).prop_map(|which| Step::Finish { which }),
        1 => place().prop_map(|(object, start, bytes)| Step::Lookup { object, start, bytes }),
    ]
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn few_steps(steps in vec(steps(), 0..12)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check_all();
        }
    }
}

#[test]
fn a_hundred_thousand_steps() {
    let mut rng = Seeded::new(4);
    let mut world = World::new();
    for i in 0..100_000 {
        let object = rng.below(N_OBJECTS.into()) as u8;
        // Mostly short, so that many extents live side by side; at times all.
        let most = [6, 6, 6, N_BYTES as u32][rng.below(4) as usize];
        let bytes = u64::from(rng.below(most + 1));
        let start = u64::from(rng.below((N_BYTES - bytes) as u32 + 1));
        world.step(match rng.below(10) {
            0..4 => Step::Write { object, start, bytes, server: rng.below(N_SERVERS) },
            4..6 => Step::Copy { object, start, bytes },
            6..9 => Step::Finish { which: rng.below(1000) as usize },
            _ => Step::Lookup { object, start, bytes },
        });
        if i % 100 == 0 {
            world.check_all();
            // Old copies are of interest, but not only.
            let n_old = world.copies.len().saturating_sub(40);
            world.copies.drain(..n_old);
        }
    }
    world.check_all();
    assert!(world.n_moved > 1000 && world.n_aborted > 1000, "{} {}", world.n_moved, world.n_aborted);
    // The maintainer brings everything home, and nothing is left behind.
    let oldest = |world: &World| world.table.oldest_first(None).next().map(|(&object, row)| (object, row));
    while let Some((object, row)) = oldest(&world) {
        world.copies.clear();
        world.step(Step::Copy {
            object,
            start: row.extent.start() - base(object),
            bytes: row.extent.bytes(),
        });
        world.step(Step::Finish { which: 0 });
    }
    world.check_all();
    assert_eq!((world.table.n_objects(), world.table.n_extents(), world.table.bytes()), (0, 0, 0));
}

#[test]
fn the_ends_of_what_there_can_be() {
    assert_eq!(Extent::new(0, u64::MAX), Ok(Extent::ALL));
    assert_eq!(Extent::new(u64::MAX, 1), Err(TooLong { start: u64::MAX, bytes: 1 }));
    let last = extent(u64::MAX - 1, 1);
    let mut table = RedirectTable::new(HOME);
    table.wrote(&"o", Extent::ALL, MemberId(1));
    let wrote = table.wrote(&"o", last, MemberId(2));
    assert_eq!(wrote.stale, [away(u64::MAX - 1, 1, 1, 1)]);
    let first = away(0, u64::MAX - 1, 1, 1);
    assert_eq!(
        table.lookup(&"o", Extent::ALL),
        [Piece::Away(first), Piece::Away(away(u64::MAX - 1, 1, 2, 2))]
    );
    let wrote = table.wrote(&"o", Extent::ALL, HOME);
    assert_eq!(wrote.stale, [first, away(u64::MAX - 1, 1, 2, 2)]);
    assert_eq!(table.lookup(&"o", last), [Piece::Home(last)]);
    for object in 0..3 {
        let mut table = RedirectTable::new(HOME);
        (0..=object).for_each(|object| _ = table.wrote(&object, Extent::ALL, MemberId(1)));
        assert_eq!(table.bytes(), u128::from(u64::MAX) * (object + 1), "more than 64 bits can count");
    }
}

#[test]
fn no_bytes_change_nothing() {
    let mut table = RedirectTable::new(HOME);
    table.wrote(&"o", extent(10, 10), MemberId(1));
    for start in [0, 10, 15, 20, u64::MAX] {
        let none = extent(start, 0);
        let nothing = Wrote { version: Version(1), stale: Vec::new() };
        assert_eq!(table.wrote(&"o", none, MemberId(2)), nothing);
        assert_eq!(table.wrote(&"o", none, HOME), nothing);
        assert_eq!(table.lookup(&"o", none), []);
        assert_eq!(table.compare_and_remove(&"o", away(start, 0, 3, 9)), Ok(()));
        assert_eq!(table.restore(&"o", away(start, 0, 1, 1)), Ok(()));
    }
    assert_eq!(table.oldest_first(None).collect::<Vec<_>>(), [(&"o", away(10, 10, 1, 1))]);
    assert_eq!(table.wrote(&"p", extent(0, 0), MemberId(1)).stale, []);
    assert_eq!(table.n_objects(), 1);
}

/// A written extent is not what was read, even if the same server has it again.
#[test]
fn a_move_home_fails_if_anything_was_written_since() {
    let (o, one) = ("o", MemberId(1));
    let read = away(0, 100, 1, 1);
    for (start, bytes, server) in [(0, 1, 1), (99, 1, 1), (50, 1, 0), (0, 100, 2), (0, 1000, 1)] {
        let mut table = RedirectTable::new(HOME);
        table.wrote(&o, extent(0, 100), one);
        table.wrote(&o, extent(start, bytes), MemberId(server));
        let before: Vec<_> = table.oldest_first(None).map(|(_, row)| row).collect();
        assert_eq!(table.compare_and_remove(&o, read), Err(Changed));
        assert_eq!(table.oldest_first(None).map(|(_, row)| row).collect::<Vec<_>>(), before);
    }
    let mut table = RedirectTable::new(HOME);
    table.wrote(&o, extent(0, 100), one);
    table.wrote(&o, extent(100, 100), one);
    for wrong in [away(0, 101, 1, 1), away(0, 100, 2, 1), away(0, 100, 1, 2), away(200, 1, 1, 1)] {
        assert_eq!(table.compare_and_remove(&o, wrong), Err(Changed), "{wrong:?}");
    }
    assert_eq!(table.compare_and_remove(&"p", read), Err(Changed));
    assert_eq!(table.compare_and_remove(&o, away(20, 30, 1, 1)), Ok(()), "a part at a time");
    assert_eq!(table.compare_and_remove(&o, read), Err(Changed), "a part is home already");
    assert_eq!((table.n_extents(), table.bytes()), (3, 170));
}

/// Whoever writes the same bytes all the time does not keep others waiting, nor does what cannot be moved.
#[test]
fn the_oldest_goes_home_first() {
    let mut table = RedirectTable::new(HOME);
    for object in ["a", "b", "c"] {
        table.wrote(&object, extent(0, 8), MemberId(1));
    }
    table.wrote(&"a", extent(2, 2), MemberId(2));
    let order = |after| table.oldest_first(after).map(|(&o, row)| (o, row)).collect::<Vec<_>>();
    let all = [
        ("a", away(0, 2, 1, 1)),
        ("a", away(4, 4, 1, 1)),
        ("b", away(0, 8, 1, 2)),
        ("c", away(0, 8, 1, 3)),
        ("a", away(2, 2, 2, 4)),
    ];
    assert_eq!(order(None), all);
    for (i, (_, row)) in all.iter().enumerate() {
        assert_eq!(order(Some(*row)), all[i + 1..]);
    }
}

#[test]
fn what_was_kept_is_checked() {
    let mut table = RedirectTable::resume(HOME, Version(9)).expect("few writes");
    assert_eq!(table.restore(&"o", away(0, 10, 1, 5)), Ok(()));
    let misfits = [
        ("o", away(20, 5, 0, 6), BadRow::AtHome(0)),
        ("o", away(20, 5, 1, 10), BadRow::TooNew(10)),
        ("o", away(9, 5, 1, 5), BadRow::Overlap),
        ("o", away(0, 10, 1, 5), BadRow::Overlap),
        ("o", away(10, 5, 2, 5), BadRow::NotOneWrite(5)),
        ("p", away(10, 5, 1, 5), BadRow::NotOneWrite(5)),
    ];
    for (object, row, misfit) in misfits {
        assert_eq!(table.restore(&object, row), Err(misfit));
    }
    assert_eq!(
        RedirectTable::<u8>::resume(HOME, Version(u64::MAX)).map(drop),
        Err(BadRow::NoVersionsLeft(u64::MAX))
    );
    assert_eq!(table.restore(&"o", away(20, 5, 1, 5)), Ok(()));
    assert_eq!(table.restore(&"o", away(25, 5, 1, 6)), Ok(()), "another write beside it");
    assert_eq!(table.n_extents(), 3);
    assert_eq!(table.restore(&"o", away(10, 10, 1, 5)), Ok(()), "closes the gap");
    let rows: BTreeMap<u64, u64> =
        table.oldest_first(None).map(|(_, row)| (row.extent.start(), row.extent.end())).collect();
    assert_eq!(rows, BTreeMap::from([(0, 25), (25, 30)]));
    assert_eq!(table.wrote(&"o", Extent::ALL, HOME).version, Version(10), "versions go on");
}
