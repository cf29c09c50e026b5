//! Clients send their requests to servers by themselves.

use evenkeel::model::{Choice, ServerId};

use super::{Requests, Run, Windows};
use crate::fabric::{Fabric, Happening};
use crate::outcome::Outcome;

/// Clients send their requests to the chosen servers, each as many at once as it has slots. A request that is lost goes
/// to the next server that is up and holds the data.
pub fn push(requests: &Requests, fabric: Fabric<'_>, choice: &Choice) -> Outcome {
    let mut servers: Vec<ServerId> = requests.batch.replicas().iter().map(|set| set[0]).collect();
    choice.parts(&requests.batch).for_each(|part| servers[part.request as usize] = part.server);
    let mut windows = Windows::new(&fabric);
    let mut pushing = Pushing { run: Run::new(requests, fabric), servers, stranded: Vec::new() };
    while let Some((_, happening)) = pushing.run.fabric.next() {
        match happening {
            Happening::Arrival => {
                while let Some(request) = pushing.run.next_arrival() {
                    windows.arrived(&requests.batch, request, |request| pushing.send(request));
                }
            }
            Happening::Done { tag } => {
                let request = tag as u32;
                let job = pushing.run.whole(request, pushing.servers[request as usize]);
                pushing.run.outcome.count(&job);
                pushing.run.deliver(request);
                windows.done(&requests.batch, request, |request| pushing.send(request));
            }
            Happening::Lost { tag } => pushing.send_elsewhere(tag as u32),
            Happening::Up { .. } => {
                for request in std::mem::take(&mut pushing.stranded) {
                    pushing.send_elsewhere(request);
                }
            }
            Happening::Down { .. } | Happening::Timer { .. } => {}
        }
    }
    pushing.run.finish()
}

struct Pushing<'a> {
    run: Run<'a>,
    /// The server of each request.
    servers: Vec<ServerId>,
    /// Requests for which no server is up.
    stranded: Vec<u32>,
}

impl Pushing<'_> {
    fn send(&mut self, request: u32) {
        let job = self.run.whole(request, self.servers[request as usize]);
        self.run.outcome.n_messages += 1;
        let after_ns = self.run.fabric.hardware().message_ns;
        self.run.fabric.submit(job, after_ns);
    }

    fn send_elsewhere(&mut self, request: u32) {
        let Some(server) = self.run.holder(request) else {
            self.stranded.push(request);
            return;
        };
        self.servers[request as usize] = server;
        self.send(request);
    }
}
