//! Benchmarks against regressions: each solver on a batch of 100,000 requests.

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel::model::{Batch, Cluster};
use evenkeel::order;
use evenkeel::select::{self, Goal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

fn uniform() -> Workload {
    Workload {
        n_requests: 100_000,
        n_clients: 256,
        n_servers: 1000,
        copies: 3,
        law: Law::Uniform,
        sizes: Sizes::Fixed(1),
        clients: Clients::Drawn,
        seed: 1,
    }
}

fn generate(workload: &Workload) -> Batch {
    workload.generate().expect("a valid workload")
}

fn selection(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select");
    group.sample_size(10);
    let geometric = Law::Geometric { ratio: 0.99, hot_spots: 1 };
    for (name, law) in [("uniform", Law::Uniform), ("geo", geometric), ("chain", Law::Chain)] {
        let batch = generate(&Workload { law, ..uniform() });
        let cluster = Cluster::equal(&batch);
        group.bench_function(name, |b| b.iter(|| select::optimal::select(&batch, &cluster, Goal::MaxLoad)));
    }
    group.finish();
}

fn ordering(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("order");
    group.sample_size(10);
    let workloads = [
        ("colouring", uniform()),
        ("colouring-regular", Workload { n_clients: 1000, clients: Clients::InTurn, ..uniform() }),
        ("open-shop", Workload { sizes: Sizes::Uniform(1, 64), ..uniform() }),
    ];
    for (name, workload) in workloads {
        let batch = generate(&workload);
        let cluster = Cluster::equal(&batch);
        let (choice, _) = select::optimal::select(&batch, &cluster, Goal::Length);
        group.bench_function(name, |b| b.iter(|| order::colour::order(&batch, &cluster, &choice)));
    }
    group.finish();
}

criterion_group!(benches, selection, ordering);
criterion_main!(benches);
