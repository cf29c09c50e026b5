//! Machines, and a network between them that loses, delays and cuts.
//!
//! Requests reach a node as its listeners would hand them over, and are executed whether or not anybody hears the answer.
//! A machine that crashes forgets what its disk has not synced, drops what it was doing, and breaks its connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_store::cluster::{Cluster, Credentials, Reference, Server, Servers};
use evenkeel_store::{Answer, Payload, Problem, Request, StoreError, Wire};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, DATE, HOST, HeaderValue};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::dice::Dice;
use crate::node::server::{Ports, answer};
use crate::node::store::folder::Folder;
use crate::node::store::folder::tests::Fake;
use crate::node::{Peers, Settings};
use crate::outside;

/// As long as clients wait on real sockets.
const SILENCE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes that travel together.
const PACKET: usize = 1400;

/// Who sends, or is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Node(usize),
    Client(usize),
}

/// How often something goes wrong, of a thousand requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    pub(super) lost_requests: u64,
    pub(super) lost_answers: u64,
    pub(super) cut_requests: u64,
    pub(super) cut_answers: u64,
    pub(super) delays: u64,
    /// Of those whose way is cut: the machine goes on sending them when their client has long given up.
    pub(super) late_requests: u64,
}

/// The moment at which somebody stops for good, or a machine crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A request is sent.
    Before,
    /// Half of its body is sent.
    Half,
    /// It is executed, and the answer is not there.
    After,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each may happen together with any other
struct Fate {
    there: Duration,
    back: Duration,
    is_lost: bool,
    is_late: bool,
    is_answer_lost: bool,
    /// Whether what is lost shows at once.
    shows: bool,
    request_ends_after: Option<u64>,
    answer_ends_after: Option<u64>,
    /// Whether the server notices when the client is gone.
    notices: bool,
}

pub(super) struct Net {
    begun: Instant,
    pub(super) cluster: Cluster,
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    trouble: Trouble,
    machines: Vec<Machine>,
    /// Who does not reach whom.
    parted: Vec<(Place, Place)>,
    n_requests: u64,
    history: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    stop: Option<Stop>,
}

struct Machine {
    disk: Fake,
    /// Nothing while it is down.
    life: Option<Arc<Life>>,
}

/// A node from its start to its crash.
struct Life {
    ports: Ports,
    disk: Fake,
    /// Whether it has crashed.
    over: watch::Sender<bool>,
}

/// A client that stops at its n-th request.
struct Stop {
    who: Place,
    left: u64,
    moment: Moment,
    reached: watch::Sender<bool>,
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

/// How somebody reaches servers.
#[derive(Debug)]
struct Link {
    net: Weak<Net>,
    from: Place,
}

impl Wire for Link {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let Some(net) = self.net.upgrade() else { return std::future::pending().boxed() };
        let (from, name) = (self.from, request.name.clone());
        // Uploads have a watch of their own.
        let is_upload = matches!(request.what, Payload::Stream(..));
        async move {
            let carried = net.carry(from, request);
            if is_upload {
                return carried.await;
            }
            match timeout(SILENCE, carried).await {
                Ok(answer) => answer,
                Err(_) => Err(StoreError { address: name, problem: Problem::TimedOut }),
            }
        }
        .boxed()
    }
}

fn reset() -> Problem {
    Problem::Unreachable("connection reset by peer".to_owned())
}

impl Net {
    /// So many nodes with empty disks.
    pub(super) fn start(n: usize, replicas: u32, dice: Dice, credentials: &Path) -> Arc<Self> {
        let server = |n: usize| Server {
            name: format!("s{n}"),
            endpoint: format!("http://s{n}:1"),
            control: Some(format!("http://s{n}:2")),
            speed_millionths: 1_000_000,
            region: None,
            credentials: None,
        };
        let cluster = Cluster {
            servers: (0..n).map(server).collect(),
            credentials: Some(Reference::File(credentials.to_owned())),
            replicas,
        };
        let mut own = dice;
        let machines = (0..n).map(|_| Machine { disk: Fake::new(own.below(1 << 40), None), life: None });
        let state = State {
            machines: machines.collect(),
            dice: own,
            trouble: Trouble::default(),
            parted: Vec::new(),
            n_requests: 0,
            history: Vec::new(),
            counts: BTreeMap::new(),
            stop: None,
        };
        let net = Arc::new(Self { begun: Instant::now(), cluster, state: Mutex::new(state) });
        (0..n).for_each(|node| net.boot(node));
        net
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers as somebody reaches them.
    pub(super) fn servers(self: &Arc<Self>, from: Place) -> Arc<Servers> {
        let wire: Arc<dyn Wire> = Arc::new(Link { net: Arc::downgrade(self), from });
        Arc::new(Servers::over(&wire, &self.cluster).unwrap())
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.cluster.servers.len()
    }

    /// Writes a line of the history.
    pub(super) fn note(&self, what: impl fmt::Display) {
        let at = self.begun.elapsed().as_micros();
        self.state().history.push(format!("{at} {what}"));
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let state = self.state();
        let mut counts = state.counts.clone();
        counts.insert("requests", state.n_requests);
        counts
    }

    pub(super) fn history(&self) -> Vec<String> {
        self.state().history.clone()
    }

    pub(super) fn set_trouble(&self, trouble: Trouble) {
        self.state().trouble = trouble;
    }

    /// Cuts the ways between two places, or mends them.
    pub(super) fn part(&self, a: Place, b: Place, is_parted: bool) {
        self.note(format_args!("{a:?} {b:?} {}", if is_parted { "parted" } else { "joined" }));
        let mut state = self.state();
        state.parted.retain(|pair| *pair != (a, b) && *pair != (b, a));
        if is_parted {
            state.parted.extend([(a, b), (b, a)]);
        }
    }

    fn is_parted(&self, from: Place, to: Place) -> bool {
        self.state().parted.contains(&(from, to))
    }

    /// Whoever this is stops at its n-th request from now on. Tells when that is so.
    pub(super) fn stop_at(&self, who: Place, n: u64, moment: Moment) -> watch::Receiver<bool> {
        let (reached, told) = watch::channel(false);
        self.state().stop = Some(Stop { who, left: n, moment, reached });
        told
    }

    /// Starts a machine that is down. It may crash again on the way.
    pub(super) fn boot(self: &Arc<Self>, node: usize) {
        let disk = {
            let mut state = self.state();
            let machine = &mut state.machines[node];
            if machine.life.is_some() {
                return;
            }
            if machine.disk.has_crashed() {
                machine.disk = machine.disk.restart();
            }
            machine.disk.clone()
        };
        let store = match Folder::simulated(&disk) {
            Ok(store) => store,
            Err(error) if disk.has_crashed() => {
                self.note(format_args!("s{node} crashes while it starts"));
                drop(error);
                return;
            }
            Err(error) => panic!("s{node} does not start: {error}"),
        };
        let reference = self.cluster.credentials.as_ref().unwrap();
        let settings = Settings {
            name: self.cluster.servers[node].name.clone(),
            keys: reference.find().unwrap(),
            slots: 4,
            bytes_per_second: None,
            cluster: None,
            upkeep: None,
            tls: None,
            logs: false,
        };
        let peers = Peers::over(self.servers(Place::Node(node)));
        let ports = Ports::new(Arc::new(store), settings, Some(peers));
        let (over, _) = watch::channel(false);
        self.note(format_args!("s{node} starts"));
        self.state().machines[node].life = Some(Arc::new(Life { ports, disk, over }));
    }

    /// A machine crashes now.
    pub(super) fn crash(&self, node: usize) {
        let mut state = self.state();
        let machine = &mut state.machines[node];
        let Some(life) = machine.life.take() else { return };
        // What is being done there meets a disk that answers nothing any more.
        machine.disk = machine.disk.restart();
        drop(state);
        self.note(format_args!("s{node} crashes"));
        self.count("crashes");
        life.over.send_replace(true);
    }

    /// A machine will crash in the middle of the n-th change of its disk.
    pub(super) fn crash_after(&self, node: usize, n: u64) {
        self.state().machines[node].disk.crash_after(n);
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.state().machines[node].life.is_some()
    }

    /// A node takes no new objects, or does again.
    pub(super) fn drain(&self, node: usize, is_draining: bool) {
        let life = self.state().machines[node].life.clone();
        if let Some(life) = life {
            self.note(format_args!("s{node} drains: {is_draining}"));
            life.ports.gate.drain(is_draining);
        }
    }

    /// Nothing goes wrong any more, and everybody is there.
    pub(super) fn heal(self: &Arc<Self>) {
        self.note("all is well again");
        {
            let mut state = self.state();
            state.trouble = Trouble::default();
            state.parted.clear();
            state.stop = None;
        }
        for node in 0..self.n_nodes() {
            self.find_crashed(node);
            self.state().machines[node].disk.calm_down();
            self.boot(node);
            self.drain(node, false);
        }
    }

    /// A machine whose disk says so has crashed.
    pub(super) fn find_crashed(&self, node: usize) {
        let has_crashed = self.state().machines[node].disk.has_crashed();
        if has_crashed {
            self.crash(node);
        }
    }

    /// What happens to a request, and its number.
    fn draw(&self, bytes: u64) -> (u64, Fate) {
        let mut state = self.state();
        state.n_requests += 1;
        let (number, trouble) = (state.n_requests, state.trouble);
        let dice = &mut state.dice;
        let slow = |dice: &mut Dice| {
            let most = if dice.happens(trouble.delays) { 6_000 } else { 20 };
            Duration::from_micros(100) + dice.millis(most)
        };
        let half =
            |dice: &mut Dice, permille: u64, most: u64| dice.happens(permille).then(|| dice.below(most + 1));
        let fate = Fate {
            there: slow(dice),
            back: slow(dice),
            is_lost: dice.happens(trouble.lost_requests),
            is_late: dice.happens(trouble.late_requests),
            is_answer_lost: dice.happens(trouble.lost_answers),
            shows: dice.below(3) > 0,
            request_ends_after: half(dice, trouble.cut_requests, bytes),
            answer_ends_after: half(dice, trouble.cut_answers, 3_000),
            notices: dice.below(2) == 0,
        };
        (number, fate)
    }

    /// Whether this is the moment at which somebody stops. It never goes on then.
    async fn moment(&self, from: Place, moment: Moment) {
        let is_now = {
            let mut state = self.state();
            match &mut state.stop {
                Some(stop) if stop.who == from && stop.moment == moment => {
                    stop.left = stop.left.saturating_sub(1);
                    if stop.left == 0 {
                        stop.reached.send_replace(true);
                    }
                    stop.left == 0
                }
                _ => false,
            }
        };
        if is_now {
            self.note(format_args!("{from:?} stops"));
            std::future::pending::<()>().await;
        }
    }

    #[allow(clippy::too_many_lines)] // the way of a request, from its beginning to its end
    async fn carry(self: Arc<Self>, from: Place, request: Request) -> Result<Answer, StoreError> {
        let Request { method, url, headers, what, name, .. } = request;
        let fail = |problem: Problem| Err(StoreError { address: name.clone(), problem });
        let node = url.host_str().and_then(|host| host.strip_prefix('s')?.parse::<usize>().ok()).unwrap();
        let to = Place::Node(node);
        let (bytes, body) = packets(what);
        let (number, fate) = self.draw(bytes);
        let is_control = url.port() == Some(2);
        let path = if is_control { format!("control {}", url.path()) } else { url.path().to_owned() };
        let about = format!("{number} {from:?} s{node} {method} {path} {bytes}");
        let note = |what: &str| self.note(format_args!("{about}: {what}"));
        self.moment(from, Moment::Before).await;
        note("is sent");
        sleep(fate.there).await;
        let target =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut asked = hyper::Request::builder().method(method.clone()).uri(target);
        if let Some(all) = asked.headers_mut() {
            *all = headers;
            let host = format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or_default());
            all.insert(HOST, HeaderValue::try_from(host).unwrap());
            if bytes > 0 || method == hyper::Method::PUT {
                all.insert(CONTENT_LENGTH, bytes.into());
            }
        }
        let life = self.state().machines[node].life.clone();
        if self.is_parted(from, to) {
            self.count("partitioned requests");
            if let Some(life) = life.filter(|_| fate.is_late) {
                let packets: Vec<_> = body.collect().await;
                let packets = stream::iter(packets).map_err(BoxError::from).boxed();
                if let Ok(asked) = asked.body(Sent { left: bytes, packets }) {
                    let late = Arc::clone(&self).arrive_late((from, to), node, life, is_control, asked, fate);
                    drop(tokio::spawn(late));
                    note("may arrive late");
                    std::future::pending::<()>().await;
                }
                return fail(reset());
            }
            sleep(CONNECT).await;
            note("does not arrive");
            return fail(Problem::TimedOut);
        }
        let Some(life) = life else {
            note("is refused");
            return fail(Problem::Unreachable("connection refused".to_owned()));
        };
        if fate.is_lost {
            self.count("lost requests");
            note("is lost");
            if fate.shows {
                return fail(reset());
            }
            std::future::pending::<()>().await;
        }
        // True when the connection is broken, or the client is gone.
        let (broken, mut sees_broken) = watch::channel(false);
        let broken = Arc::new(broken);
        let hangs_up = HangsUp(Arc::clone(&broken));
        let sent = Sent {
            left: bytes,
            packets: self.clone().request_body(from, to, body, bytes, fate, &broken, &life),
        };
        let asked = asked.body(sent).unwrap();
        let (tell, told) = oneshot::channel();
        let work = Arc::clone(&self).work(
            node,
            Arc::clone(&life),
            is_control,
            asked,
            fate.notices,
            broken.subscribe(),
            tell,
        );
        drop(tokio::spawn(work));
        let answered = tokio::select! {
            biased;
            _ = sees_broken.wait_for(|is| *is) => None,
            answered = told => answered.ok(),
        };
        let Some(response) = answered else {
            note("breaks");
            return fail(reset());
        };
        self.moment(from, Moment::After).await;
        let is_write = method != hyper::Method::GET && method != hyper::Method::HEAD;
        if fate.is_answer_lost {
            self.count(if is_write { "lost answers to writes" } else { "lost answers to reads" });
            note(&format!("is answered {}, which is lost", response.status()));
            if fate.shows {
                sleep(fate.back).await;
                return fail(reset());
            }
            std::future::pending::<()>().await;
        }
        sleep(fate.back).await;
        if self.is_parted(to, from) {
            self.count("partitioned answers");
            note("is not heard of");
            std::future::pending::<()>().await;
        }
        note(response.status().as_str());
        let (parts, body) = response.into_parts();
        let mut headers = parts.headers;
        // As the HTTP server adds it.
        let date = httpdate::fmt_http_date(outside::now());
        headers.insert(DATE, HeaderValue::try_from(date).unwrap());
        let body = if method == hyper::Method::HEAD { s3s::Body::empty() } else { body };
        let body = self.clone().answer_body(from, to, body, fate, name.clone(), &life, hangs_up);
        Ok(Answer { status: parts.status, headers, body })
    }

    /// What a machine has taken over to send arrives when the way is free again, unless the connection is gone.
    async fn arrive_late(
        self: Arc<Self>,
        (from, to): (Place, Place),
        node: usize,
        life: Arc<Life>,
        is_control: bool,
        request: hyper::Request<Sent>,
        fate: Fate,
    ) {
        while self.is_parted(from, to) {
            sleep(Duration::from_secs(1)).await;
        }
        sleep(fate.there * 10).await;
        let is_same = self.state().machines[node].life.as_ref().is_some_and(|now| Arc::ptr_eq(now, &life));
        if is_same && !*life.over.borrow() {
            self.note(format_args!("{} {} arrives late", request.method(), request.uri()));
            self.count("late requests");
            // Nobody is there to take the answer, and the node may notice in time.
            let (broken, is_broken) = watch::channel(true);
            let (tell, _) = oneshot::channel();
            self.work(node, life, is_control, request, fate.notices, is_broken, tell).await;
            drop(broken);
        }
    }

    /// What a node does with a request.
    #[allow(clippy::too_many_arguments)]
    async fn work(
        self: Arc<Self>,
        node: usize,
        life: Arc<Life>,
        is_control: bool,
        request: hyper::Request<Sent>,
        notices: bool,
        mut broken: watch::Receiver<bool>,
        tell: oneshot::Sender<hyper::Response<s3s::Body>>,
    ) {
        let server = if is_control { &life.ports.control } else { &life.ports.data };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut over = life.over.subscribe();
        let response = tokio::select! {
            biased;
            _ = over.wait_for(|is| *is) => return,
            _ = broken.wait_for(|is| *is), if notices => return,
            response = answer(request, peer, Arc::clone(server)) => response,
        };
        // Whoever has crashed answers nothing.
        if life.disk.has_crashed() {
            self.find_crashed(node);
            return;
        }
        if let Ok(response) = response {
            let _ = tell.send(response);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn request_body(
        self: Arc<Self>,
        from: Place,
        to: Place,
        body: BoxStream<'static, Result<Bytes, StoreError>>,
        bytes: u64,
        fate: Fate,
        broken: &Arc<watch::Sender<bool>>,
        life: &Arc<Life>,
    ) -> BoxStream<'static, Result<Bytes, BoxError>> {
        let (broken, over) = (Arc::clone(broken), life.over.subscribe());
        let state = Some((body, 0_u64, broken, over));
        let net = self;
        stream::unfold(state, move |state| {
            let net = Arc::clone(&net);
            async move {
                let (mut body, mut sent, broken, mut over) = state?;
                let mut sees_broken = broken.subscribe();
                let next = async {
                    let packet = body.next().await;
                    if matches!(&packet, Some(Ok(_))) {
                        sleep(Duration::from_micros(200)).await;
                    }
                    if sent <= bytes / 2
                        && packet
                            .as_ref()
                            .is_some_and(|p| p.as_ref().is_ok_and(|p| sent + p.len() as u64 > bytes / 2))
                    {
                        net.moment(from, Moment::Half).await;
                    }
                    if net.is_parted(from, to) {
                        std::future::pending::<()>().await;
                    }
                    packet
                };
                let packet = tokio::select! {
                    biased;
                    _ = sees_broken.wait_for(|is| *is) => Some(Err(reset().at(""))),
                    _ = over.wait_for(|is| *is) => Some(Err(reset().at(""))),
                    packet = next => packet,
                };
                match packet {
                    None => None,
                    Some(Ok(packet)) => {
                        sent += packet.len() as u64;
                        if fate.request_ends_after.is_some_and(|end| sent > end) {
                            net.count("cut requests");
                            broken.send_replace(true);
                            return Some((Err(BoxError::from("connection reset by peer")), None));
                        }
                        Some((Ok(packet), Some((body, sent, broken, over))))
                    }
                    Some(Err(error)) => {
                        broken.send_replace(true);
                        Some((Err(BoxError::from(error)), None))
                    }
                }
            }
        })
        .boxed()
    }

    #[allow(clippy::too_many_arguments)]
    fn answer_body(
        self: Arc<Self>,
        from: Place,
        to: Place,
        body: s3s::Body,
        fate: Fate,
        name: String,
        life: &Life,
        hangs_up: HangsUp,
    ) -> evenkeel_store::Body {
        let net = self;
        let state = Some((body, Bytes::new(), 0_u64, life.over.subscribe(), hangs_up));
        stream::unfold(state, move |state| {
            let (net, name) = (Arc::clone(&net), name.clone());
            async move {
                let (mut body, mut rest, mut sent, mut over, hangs_up) = state?;
                let next = async {
                    if rest.is_empty() {
                        rest = match body.next().await {
                            None => return None,
                            Some(Ok(bytes)) => bytes,
                            Some(Err(_)) => return Some(Err(reset())),
                        };
                    }
                    let packet = rest.split_to(rest.len().min(PACKET));
                    sleep(Duration::from_micros(200)).await;
                    Some(Ok(packet))
                };
                let packet = tokio::select! {
                    biased;
                    _ = over.wait_for(|is| *is) => Some(Err(reset())),
                    packet = next => packet,
                };
                let fail = |problem: Problem| Some((Err(problem.at(name.as_str())), None));
                match packet? {
                    Err(problem) => fail(problem),
                    Ok(_) if net.is_parted(to, from) => {
                        net.count("partitioned answers");
                        sleep(SILENCE).await;
                        fail(Problem::TimedOut)
                    }
                    Ok(packet) => {
                        sent += packet.len() as u64;
                        if fate.answer_ends_after.is_some_and(|end| sent > end) {
                            net.count("cut answers");
                            return fail(reset());
                        }
                        Some((Ok(packet), Some((body, rest, sent, over, hangs_up))))
                    }
                }
            }
        })
        .boxed()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A client that is gone breaks its connection.
struct HangsUp(Arc<watch::Sender<bool>>);

impl Drop for HangsUp {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// How many bytes a body has, and these in pieces.
fn packets(what: Payload) -> (u64, BoxStream<'static, Result<Bytes, StoreError>>) {
    let cut = |mut bytes: Bytes| {
        let mut packets = Vec::new();
        while !bytes.is_empty() {
            packets.push(Ok(bytes.split_to(bytes.len().min(PACKET))));
        }
        stream::iter(packets)
    };
    match what {
        Payload::Nothing => (0, stream::empty().boxed()),
        Payload::Bytes(bytes) => (bytes.len() as u64, cut(bytes).boxed()),
        Payload::Stream(bytes, body) => {
            let packets = body.map(move |chunk| match chunk {
                Ok(chunk) => cut(chunk).boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            });
            (bytes, packets.flatten().boxed())
        }
    }
}

/// The body of a request, as a node receives it.
struct Sent {
    left: u64,
    packets: BoxStream<'static, Result<Bytes, BoxError>>,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = self.packets.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(packet))) = &next {
            self.left = self.left.saturating_sub(packet.len() as u64);
        }
        match next {
            // As the HTTP server has it.
            Poll::Ready(None) if self.left > 0 => {
                self.left = 0;
                Poll::Ready(Some(Err("the body is too short".into())))
            }
            next => next.map(|next| next.map(|packet| packet.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Keys for all simulations.
pub(super) fn credentials(folder: &Path) -> PathBuf {
    let path = folder.join("keys");
    Credentials::read_or_make(&path).unwrap();
    path
}
