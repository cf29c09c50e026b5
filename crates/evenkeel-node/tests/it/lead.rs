//! Changes of who leads: carried out in steps, stopped by anything else that changes, and taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_trait::async_trait;
use evenkeel::draw::{Draw, Seeded};
use evenkeel::lead::Wish;
use evenkeel::lead::watch::{Decision, Settings, Watch};
use evenkeel::model::Server;
use evenkeel_node::Measurement;
use evenkeel_node::lead::{
    Change, Engine, EngineError, Group, Look, Member, Record, Script, Watching, carry_out, plan, watch,
};

/// What others do to a store.
type Meddle = fn(&mut Look);

/// A store in memory. It may die at its n-th action: before it makes a change, or between two.
#[derive(Clone, Debug)]
struct Store {
    look: Look,
    /// Actions left until it fails.
    lives: usize,
    /// Who else changes something, and after how many actions.
    meddling: Option<(usize, Meddle)>,
    rates: Vec<u64>,
    n_changes: usize,
}

impl Store {
    fn drawn(draw: &mut Seeded) -> Self {
        let n_servers = 3 + draw.below(5);
        let servers = (0..n_servers).map(|i| member(&format!("osd.{i}"))).collect();
        let groups = (0..10 + draw.below(40)).map(|i| {
            let mut members: Vec<u32> = (0..n_servers).collect();
            while members.len() > 3 {
                members.remove(draw.below(members.len() as u32) as usize);
            }
            Group {
                name: format!("1.{i:x}"),
                pool: "p".to_owned(),
                weight: 1,
                leader: members.first().copied(),
                eligible: members.clone(),
                members,
            }
        });
        let look = Look { store: "here".to_owned(), servers, groups: groups.collect(), ..Look::default() };
        Self { look, lives: usize::MAX, meddling: None, rates: vec![100; n_servers as usize], n_changes: 0 }
    }

    fn act(&mut self) -> Result<(), EngineError> {
        if self.lives == 0 {
            return Err(EngineError("killed".to_owned()));
        }
        self.lives -= 1;
        if let Some((left, meddle)) = &mut self.meddling {
            match left {
                0 => meddle(&mut self.look),
                _ => *left -= 1,
            }
        }
        Ok(())
    }

    fn leaders(&self) -> BTreeMap<String, u32> {
        self.look.groups.iter().map(|group| (group.name.clone(), group.leader.unwrap())).collect()
    }

    fn sets(&self) -> BTreeMap<String, BTreeSet<u32>> {
        let set = |group: &Group| (group.name.clone(), group.members.iter().copied().collect());
        self.look.groups.iter().map(set).collect()
    }

    fn planned(&self) -> Vec<Change> {
        let servers = vec![Server::default(); self.look.servers.len()];
        plan(&self.look, servers, Vec::new(), &Wish::default()).unwrap().changes
    }
}

fn member(name: &str) -> Member {
    Member { name: name.to_owned(), speed: None, barred: None }
}

#[async_trait]
impl Engine for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    async fn look(&mut self) -> Result<Look, EngineError> {
        self.act()?;
        Ok(self.look.clone())
    }

    fn commands(&self, _: &Look, _: &[Change]) -> Result<Vec<Script>, EngineError> {
        Ok(Vec::new())
    }

    async fn apply(&mut self, _: &Look, changes: &[Change]) -> Result<(), EngineError> {
        for change in changes {
            self.act()?;
            assert!(change.is_a_reordering());
            let to = self.look.servers.iter().position(|server| server.name == change.to);
            if let Some(group) = self.look.groups.iter_mut().find(|group| group.name == change.group) {
                group.leader = to.map(|to| to as u32);
            }
            self.n_changes += 1;
        }
        Ok(())
    }

    async fn measure(&mut self, look: &Look) -> Result<Vec<Measurement>, EngineError> {
        let measured = |(i, member): (usize, &Member)| {
            let leads = look.groups.iter().any(|group| group.leader == Some(i as u32));
            let name = member.name.clone();
            Measurement { name, rate: leads.then_some(self.rates[i]), bytes: 1, error: None }
        };
        Ok(look.servers.iter().enumerate().map(measured).collect())
    }
}

async fn carried_out(store: &mut Store, file: &Path) -> Result<(), EngineError> {
    let (look, changes) = (store.look.clone(), store.planned());
    let mut record = Record::open(file, store, &look)?;
    carry_out(store, &look, &changes, &mut record, 3, |_| {}).await.map(|_| ())
}

async fn undone(store: &mut Store, file: &Path) -> (usize, usize) {
    let look = store.look.clone();
    let mut record = Record::open(file, store, &look).unwrap();
    let undo = record.undo(&look);
    carry_out(store, &look, &undo.changes, &mut record, 3, |_| {}).await.unwrap();
    (undo.kept.len(), undo.refused.len())
}

/// Killed at any moment: what was done is in the undo file, running again finishes it, and undoing leads back.
#[tokio::test]
async fn whatever_was_done_can_be_undone() {
    let mut draw = Seeded::new(7);
    for _ in 0..60 {
        let mut store = Store::drawn(&mut draw);
        let (first, sets) = (store.leaders(), store.sets());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("undo.json");
        let mut n_kills = 0;
        loop {
            store.lives = draw.below(12) as usize;
            let ended = carried_out(&mut store, &file).await;
            store.lives = usize::MAX;
            if n_kills == 0 && draw.below(4) == 0 {
                // In the middle, too.
                let mut copy = store.clone();
                if file.exists() {
                    assert_eq!(undone(&mut copy, &file).await, (0, 0));
                }
                assert_eq!(copy.leaders(), first);
                // The file tells now that all is undone; begin anew.
                std::fs::remove_file(&file).ok();
                store = copy;
            }
            match ended {
                Ok(()) if store.planned().is_empty() => break,
                _ => n_kills += 1,
            }
        }
        assert_eq!(store.sets(), sets);
        if file.exists() {
            assert_eq!(undone(&mut store, &file).await, (0, 0));
        }
        assert_eq!((store.leaders(), store.sets()), (first, sets));
    }
}

/// Plans that differ and undos, each killed half-way: the last undo leads back to the first all the same.
#[tokio::test]
async fn a_stopped_undo_or_another_plan_can_be_undone() {
    let mut draw = Seeded::new(13);
    for _ in 0..200 {
        let mut store = Store::drawn(&mut draw);
        let (first, sets) = (store.leaders(), store.sets());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("undo.json");
        for _ in 0..2 + draw.below(6) {
            for group in &mut store.look.groups {
                group.weight = 1 + u64::from(draw.below(9));
            }
            store.lives = draw.below(14) as usize;
            if file.exists() && draw.below(2) == 0 {
                let look = store.look.clone();
                let mut record = Record::open(&file, &store, &look).unwrap();
                let undo = record.undo(&look);
                assert_eq!((undo.kept.len(), undo.refused.len()), (0, 0));
                let _ = carry_out(&mut store, &look, &undo.changes, &mut record, 2, |_| {}).await;
            } else {
                let _ = carried_out(&mut store, &file).await;
            }
        }
        store.lives = usize::MAX;
        if file.exists() {
            assert_eq!(undone(&mut store, &file).await, (0, 0));
        }
        assert_eq!((store.leaders(), store.sets()), (first, sets));
    }
}

/// Two commands never write the same undo file; one that only looks may look at any time.
#[tokio::test]
async fn one_command_uses_an_undo_file() {
    let store = Store::drawn(&mut Seeded::new(2));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("undo.json");
    let mut record = Record::open(&file, &store, &store.look).unwrap();
    record.add(&store.planned()).unwrap();
    let error = Record::open(&file, &store, &store.look).unwrap_err().to_string();
    assert!(error.contains("undo.json: another command is using this undo file"), "{error}");
    assert_eq!(Record::view(&file, &store, &store.look).unwrap().len(), record.len());
    drop(record);
    assert!(Record::open(&file, &store, &store.look).is_ok());
    assert!(!folder.path().join("undo.json.lock").exists(), "the lock stays behind");
}

/// Anything else that changes stops the rest, and is named.
#[tokio::test]
async fn others_who_change_something_stop_it() {
    let cases: [(&str, Meddle); 6] = [
        ("must not lead now: it is down", |look| look.servers[0].barred = Some("it is down".to_owned())),
        ("is on osd.0, osd.1, not on", |look| look.groups[0].members = vec![0, 1]),
        ("group 1.0 is gone", |look| drop(look.groups.remove(0))),
        ("is another store", |look| look.store = "there".to_owned()),
        ("Ceph's own balancer", |look| look.refusals = vec!["Ceph's own balancer is active".to_owned()]),
        ("osd.new is new", |look| look.servers[1] = member("osd.new")),
    ];
    let mut draw = Seeded::new(3);
    for (told, meddle) in cases {
        for after in 0..4 {
            let mut store = Store::drawn(&mut draw);
            while store.planned().len() < 4 {
                store = Store::drawn(&mut draw);
            }
            store.meddling = Some((after, meddle));
            let n_planned = store.planned().len();
            let folder = tempfile::tempdir().unwrap();
            let error = carried_out(&mut store, &folder.path().join("undo.json")).await.unwrap_err();
            assert!(error.0.contains(told), "{error}, not {told}");
            assert!(error.0.contains("What was done is in the undo file"), "{error}");
            // What others do while a step is made is seen after it.
            assert!(store.n_changes < n_planned, "all {n_planned} were made");
        }
    }
}

/// A group whose data has moved since must not be undone, and one that others gave away stays theirs.
#[tokio::test]
async fn an_undo_moves_no_data() {
    let mut draw = Seeded::new(5);
    let mut store = Store::drawn(&mut draw);
    while store.planned().len() < 3 {
        store = Store::drawn(&mut draw);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("undo.json");
    let changed: Vec<String> = store.planned().into_iter().map(|change| change.group).collect();
    let first = store.leaders();
    carried_out(&mut store, &file).await.unwrap();
    let n_servers = store.look.servers.len() as u32;
    let find =
        |look: &mut Look, name: &str| look.groups.iter().position(|group| group.name == *name).unwrap();
    let moved = find(&mut store.look, &changed[0]);
    let members = &mut store.look.groups[moved].members;
    let other = (0..n_servers).find(|server| !members.contains(server));
    match other {
        Some(other) => members[2] = other,
        None => drop(members.pop()),
    }
    let theirs = find(&mut store.look, &changed[1]);
    let group = &mut store.look.groups[theirs];
    let third = group
        .members
        .iter()
        .copied()
        .find(|&server| Some(server) != group.leader && server != first[&group.name]);
    group.leader = third;
    assert_eq!(undone(&mut store, &file).await, (1, 1));
    let leaders = store.leaders();
    for (name, leader) in &first {
        if *name != changed[0] && *name != changed[1] {
            assert_eq!(leaders[name], *leader, "{name}");
        }
    }
}

/// A file that is damaged, of another store or of a later version is refused by name.
#[tokio::test]
async fn wrong_undo_files() {
    let store = Store::drawn(&mut Seeded::new(1));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("undo.json");
    let other = r#"{"format":1,"engine":"store","store":"there","changes":[]}"#;
    let moves = r#"{"format":1,"engine":"store","store":"here","changes":[{"group":"1.0","from":"osd.0","to":"osd.1",
        "before":["osd.0","osd.1"],"after":["osd.1","osd.2"]}]}"#;
    for (text, told) in [
        ("", "not an undo file"),
        (&moves[..80], "not an undo file"),
        (r#"{"format":9,"engine":"store","store":"here","changes":[]}"#, "format 9 is not known"),
        (other, "it is about store there, and this is store here"),
        (moves, "group 1.0 does not fit"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = Record::open(&file, &store, &store.look).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("undo.json"), "{error}");
    }
}

/// A server that turns slow loses what it leads, but for one group, and gets it back; then nothing changes any more.
#[tokio::test(start_paused = true)]
async fn a_slow_server_loses_what_it_leads() {
    let mut draw = Seeded::new(11);
    let mut store = Store::drawn(&mut draw);
    while store.look.groups.len() < 40 || store.look.servers.len() != 6 {
        store = Store::drawn(&mut draw);
    }
    let folder = tempfile::tempdir().unwrap();
    let record = Record::open(&folder.path().join("undo.json"), &store, &store.look).unwrap();
    let mut watching = Watching {
        watch: Watch::new(Settings { worth: 1.1, changes_per_hour: 1000 }),
        every: std::time::Duration::from_secs(10),
        measures: true,
        step: 4,
        record: Some(record),
        wish: Wish::default(),
        looks: Some(4),
    };
    let led = |store: &Store| store.look.groups.iter().filter(|group| group.leader == Some(2)).count();
    let usual = |look: &mut Look| Ok(vec![Server::default(); look.servers.len()]);
    watch(&mut store, &mut watching, usual, |seen| assert!(seen.is_ok())).await;
    let balanced = led(&store);
    assert!(balanced >= 5);
    for _ in 0..2 {
        store.rates[2] = 8;
        watch(&mut store, &mut watching, usual, |seen| assert!(seen.is_ok())).await;
        assert_eq!(led(&store), 1, "it keeps a group to be measured by");
        let n_changes = store.n_changes;
        // Not busy any more, it seems faster than it would be.
        store.rates[2] = 40;
        watch(&mut store, &mut watching, usual, |seen| {
            assert_eq!(seen.unwrap().decision, Decision::Rest);
        })
        .await;
        assert_eq!(store.n_changes, n_changes);
        store.rates[2] = 100;
        watch(&mut store, &mut watching, usual, |seen| assert!(seen.is_ok())).await;
        assert!(led(&store) + 1 >= balanced, "it has all of it back");
    }
    let n_changes = store.n_changes;
    watching.looks = Some(60);
    watch(&mut store, &mut watching, usual, |seen| assert_eq!(seen.unwrap().decision, Decision::Rest)).await;
    assert_eq!(store.n_changes, n_changes, "nothing changes while nothing happens");
}
