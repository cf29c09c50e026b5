use evenkeel::check;
use evenkeel::model::*;
use evenkeel::policy::*;
use evenkeel::workload::*;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: u32 = args[1].parse().unwrap();
    let only = args.get(2).cloned().unwrap_or_default();
    let servers: u32 = args.get(3).map_or(1000, |s| s.parse().unwrap());
    let clients: u32 = args.get(4).map_or(256, |s| s.parse().unwrap());
    let law = match args.get(5).map(String::as_str) { Some("hot") => Law::FirstHot { ratio: 0.99 }, Some("chain") => Law::Chain, Some("geo") => Law::Geometric{ratio:0.99, hot_spots:1}, _ => Law::Uniform };
    let batch = Workload { n_requests: n, n_clients: clients, n_servers: servers, copies: 3.min(servers), law, sizes: Sizes::Fixed(1), clients: Clients::Drawn, seed: 1 }.generate().unwrap();
    let cluster = Cluster::equal(&batch);
    for p in &POLICIES {
        if !only.is_empty() && !p.name.contains(&only) { continue; }
        let ask = Ask::default();
        let t = Instant::now();
        let (choice, ordered, what) = match p.kind {
            Kind::Select(f) => { let (c, _) = f(&batch, &cluster, &ask); (c, None, "select") }
            Kind::Order(f) => { let (c, _) = evenkeel::select::optimal::select(&batch, &cluster, ask.goal); let t0=t.elapsed(); let o = f(&batch, &cluster, &c, &ask); println!("  (selection {t0:?})"); (c, Some(o), "order") }
            Kind::Plan(f) => { let (c, o) = f(&batch, &cluster, &ask); (c, Some(o), "plan") }
            #[allow(unreachable_patterns)]
            _ => continue,
        };
        let s = t.elapsed();
        let max = choice.loads(&batch).into_iter().max().unwrap();
        if let Some(o) = &ordered { check::plan(&batch, &cluster, &o.schedule.transfers, true).unwrap(); }
        println!("{:12} {what} {:?} max load {max} {:?}", p.name, s, ordered.map(|o| (o.schedule.length, o.rounds, o.messages)));
    }
}
