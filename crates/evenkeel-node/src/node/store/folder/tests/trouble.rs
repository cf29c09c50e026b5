//! Disks that are full, broken or damaged.

use super::fake::{Draw, Fake, Kind};
use super::{Change, Store, make_bucket, put};
use crate::node::store::{Condition, StoreError};

fn store(disk: &Fake) -> Store {
    let store = Store::open(disk).unwrap();
    make_bucket(&store).unwrap();
    store
}

fn delete(key: &str) -> Change {
    Change::Delete { bucket: "b".into(), key: key.into(), condition: Condition::Always }
}

#[test]
fn a_batch_needs_one_sync_of_the_index_and_one_of_the_folder() {
    let disk = Fake::new(1, None);
    let store = store(&disk);
    let mut draw = Draw::new(1);
    // The first transactions make the file larger.
    for i in 0..64 {
        store.put(&format!("before {i}"), &draw.bytes(50)).unwrap();
    }
    let before = disk.n_syncs();
    let small: Vec<_> =
        (0..64).map(|i| put(&format!("k{i}"), store.take_in(&draw.bytes(50)).unwrap())).collect();
    store.commit(small).into_iter().for_each(|answer| drop(answer.unwrap()));
    let between = disk.n_syncs();
    assert_eq!(between[&Kind::Index] - before[&Kind::Index], 1);
    assert_eq!(between.values().sum::<u64>() - before.values().sum::<u64>(), 1);
    let large: Vec<_> =
        (0..16).map(|i| put(&format!("k{i}"), store.take_in(&draw.bytes(5000)).unwrap())).collect();
    store.commit(large).into_iter().for_each(|answer| drop(answer.unwrap()));
    let after = disk.n_syncs();
    assert_eq!(after[&Kind::Index] - between[&Kind::Index], 1);
    assert_eq!(after[&Kind::Names] - between.get(&Kind::Names).unwrap_or(&0), 1);
    assert_eq!(after[&Kind::Blob] - between.get(&Kind::Blob).unwrap_or(&0), 16);
}

#[test]
fn after_a_sync_that_failed_nothing_is_written_and_everything_can_be_read() {
    for kind in [Kind::Blob, Kind::Names, Kind::Index] {
        let disk = Fake::new(2, None);
        let store = store(&disk);
        let bytes = Draw::new(2).bytes(100_000);
        store.put("large", &bytes).unwrap();
        store.put("small", b"small").unwrap();
        disk.fail_syncs(Some(kind));
        assert!(matches!(store.put("other", &bytes), Err(StoreError::Io { .. })), "{kind:?}");
        // The disk says that it is well again.
        disk.fail_syncs(None);
        for _ in 0..2 {
            let refused = store.put("small", b"again").unwrap_err();
            assert!(
                matches!(&refused, StoreError::Closed(why) if why.contains("disk is broken")),
                "{refused}"
            );
            assert!(matches!(store.change(delete("small")), Err(StoreError::Closed(_))));
            assert_eq!(store.get("large").unwrap(), bytes);
            assert_eq!(store.get("small").unwrap(), b"small");
        }
        drop(store);
        let store = Store::open(&disk.restart()).unwrap();
        assert_eq!(store.get("large").unwrap(), bytes);
        store.put("small", b"again").unwrap();
    }
}

#[test]
fn a_full_disk_refuses_what_is_new() {
    let disk = Fake::new(3, None);
    let store = store(&disk);
    let bytes = Draw::new(3).bytes(100_000);
    store.put("large", &bytes).unwrap();
    disk.set_free_bytes((32 << 20) - 1);
    assert!(matches!(store.put("other", &bytes), Err(StoreError::Full(_))));
    assert!(matches!(store.put("small", b"small"), Err(StoreError::Full(_))));
    assert!(matches!(store.get("small"), Err(StoreError::NoSuchKey(_))));
    assert_eq!(store.get("large").unwrap(), bytes);
    // There is room to make room.
    store.change(delete("large")).unwrap();
    disk.set_free_bytes(64 << 20);
    assert_eq!(disk.blobs(), [""; 0]);
    store.put("other", &bytes).unwrap();
    // Only this one fails.
    disk.fill(Some(Kind::Blob));
    assert!(matches!(store.put("other", &bytes[1..]), Err(StoreError::Full(_))));
    disk.fill(None);
    assert_eq!(store.get("other").unwrap(), bytes);
    store.put("other", &bytes[2..]).unwrap();
    assert_eq!(disk.blobs().len(), 1);
}

/// Somebody else takes the room that was kept for the index.
#[test]
fn an_index_that_finds_no_room_is_only_read() {
    let disk = Fake::new(4, None);
    let store = store(&disk);
    let bytes = Draw::new(4).bytes(100_000);
    store.put("large", &bytes).unwrap();
    disk.fill(Some(Kind::Index));
    assert!(matches!(store.put("other", &bytes), Err(StoreError::Full(_))));
    disk.fill(None);
    assert!(matches!(store.put("other", &bytes), Err(StoreError::Closed(_))));
    assert_eq!(store.get("large").unwrap(), bytes);
    drop(store);
    let store = Store::open(&disk).unwrap();
    assert_eq!(store.get("large").unwrap(), bytes);
    assert!(matches!(store.get("other"), Err(StoreError::NoSuchKey(_))));
    store.put("other", &bytes).unwrap();
}

/// The database refuses everything after an error. Reads go on nevertheless.
#[test]
fn an_index_that_could_not_be_read_once_is_only_read() {
    let disk = Fake::new(7, None);
    let store = store(&disk);
    let bytes = |i| Draw::new(i).bytes(90);
    for i in 0..200 {
        store.put(&format!("key {i}"), &bytes(i)).unwrap();
    }
    drop(store);
    let store = Store::open(&disk).unwrap();
    disk.fail_a_read();
    for i in 0..200 {
        assert_eq!(store.get(&format!("key {i}")).unwrap(), bytes(i));
    }
    assert!(!disk.will_fail_a_read());
    assert!(store.put("key 1", b"new").is_err());
    let refused = store.put("key 1", b"new").unwrap_err();
    assert!(matches!(&refused, StoreError::Closed(why) if why.contains("start the node again")), "{refused}");
    assert_eq!(store.get("key 1").unwrap(), bytes(1));
    drop(store);
    let store = Store::open(&disk).unwrap();
    assert_eq!(store.get("key 1").unwrap(), bytes(1));
    store.put("key 1", b"new").unwrap();
}

#[test]
fn a_flipped_bit_of_a_file_shows_and_hurts_no_other() {
    for seed in 0..50 {
        let mut draw = Draw::new(seed);
        let disk = Fake::new(seed, None);
        let store = store(&disk);
        let bytes = draw.bytes(150_000);
        store.put("hurt", &bytes).unwrap();
        let path = disk.blobs().remove(0);
        store.put("other", &bytes).unwrap();
        if draw.below(4) == 0 {
            disk.cut(&path, draw.below(150_000) as usize);
        } else {
            disk.flip(&path, draw.next() as usize);
        }
        let error = store.get("hurt").unwrap_err();
        assert!(
            matches!(&error, StoreError::Damaged { what, .. } if what == "b/hurt"),
            "seed {seed}: {error}"
        );
        assert_eq!(store.get("other").unwrap(), bytes);
        let scrub = store.engine.scrub(|_| Ok(())).unwrap();
        assert_eq!(scrub.damaged.len(), 1, "seed {seed}: {scrub:?}");
        assert!(scrub.damaged[0].starts_with("b/hurt: "), "{scrub:?}");
        // It can be written again, and deleted.
        store.put("hurt", &bytes[1..]).unwrap();
        assert_eq!(store.get("hurt").unwrap(), bytes[1..]);
    }
}

/// Its name is gone, its files are there until nobody reads them.
#[test]
fn what_is_being_read_stays() {
    use crate::node::store::folder::blob::Reading;
    let disk = Fake::new(6, None);
    let store = store(&disk);
    let bytes = Draw::new(6).bytes(150_000);
    store.put("a", &bytes).unwrap();
    let begin = || {
        let (entry, pinned) = store.engine.object("b", "a").unwrap();
        Reading::new(pinned, 0, entry.bytes)
    };
    let mut readings = [begin(), begin()];
    store.put("a", &bytes[1..]).unwrap();
    store.change(delete("a")).unwrap();
    assert_eq!(disk.blobs().len(), 1);
    for reading in &mut readings {
        let mut read = Vec::new();
        while !reading.is_done() {
            read.extend_from_slice(&reading.read().unwrap());
        }
        assert_eq!(read, bytes);
    }
    drop(readings);
    store.removals.try_iter().for_each(|number| store.engine.remove(number));
    assert_eq!(disk.blobs(), [""; 0]);
}

/// Wherever a bit of the index flips: the store says so, or reads what was written, or misses an object and the scrub
/// notices. It never returns other bytes, and never panics.
#[test]
fn a_flipped_bit_of_the_index_never_passes_for_data() {
    let (mut n_refused, mut n_seen, mut n_harmless) = (0, 0, 0);
    for seed in 0..400 {
        let mut draw = Draw::new(seed);
        let disk = Fake::new(seed, None);
        let store = store(&disk);
        let mut objects = Vec::new();
        for i in 0..40 {
            let bytes = draw.bytes(20 + 3 * i);
            store.put(&format!("key {i}"), &bytes).unwrap();
            objects.push(bytes);
        }
        drop(store);
        let disk = disk.restart();
        disk.flip("index.redb", draw.next() as usize % 120_000);
        let Ok(store) = Store::open(&disk) else {
            n_refused += 1;
            continue;
        };
        let mut is_whole = true;
        for (i, bytes) in objects.iter().enumerate() {
            match store.get(&format!("key {i}")) {
                Ok(is) => assert_eq!(is, *bytes, "seed {seed}"),
                Err(_) => is_whole = false,
            }
        }
        let scrub = store.engine.scrub(|_| Ok(()));
        if is_whole {
            n_harmless += 1;
        } else {
            assert!(!matches!(&scrub, Ok(scrub) if scrub.damaged.is_empty()), "seed {seed}");
            n_seen += 1;
        }
    }
    println!("{n_refused} refused, {n_seen} seen, {n_harmless} harmless");
    assert!(n_seen > 0 || n_refused > 0);
}

#[test]
fn an_index_that_is_cut_off_or_gone_is_told() {
    let disk = Fake::new(5, None);
    let store = store(&disk);
    for i in 0..100 {
        store.put(&format!("key {i}"), &Draw::new(i).bytes(90)).unwrap();
    }
    drop(store);
    let n = disk.bytes_of("index.redb");
    for bytes in [0, 1, 100, 4096, n / 2, n - 1] {
        let disk = disk.restart();
        disk.cut("index.redb", bytes);
        let error = Store::open(&disk).err().unwrap();
        let told = matches!(&error, StoreError::Unusable(why) if why.contains("index.redb") && why.contains("Put a copy"));
        assert!(told, "{bytes} of {n}: {error}");
    }
}
