//! Readers on damaged input: an error or an answer, never a panic. The fuzz targets do the same by the million.

use std::io::Cursor;
use std::num::NonZeroU64;

use evenkeel_formats::import::{self, Clients, Deal, Gathered, InventoryColumns, Merge, TableColumns};
use evenkeel_formats::{self as formats, Declared, Reading};
use proptest::prelude::*;

const SEEDS: [&str; 16] = [
    "client,bytes,replicas\nc0,1,s0|s3|s7\nc1,2,s3\n",
    "client,bytes,replicas,chunk,job,arrival\n\"c,0\",1,\"s0|s1\",x,y,0\r\nc1,18446744073709551615,s1,x,y,7",
    r#"{"format":1,"servers":["s0","s1"],"clients":["c"],"requests":[{"client":"c","bytes":3,"replicas":["s0","s1"]}]}"#,
    "server,speed,slots,backlog,host,connections,last_used\ns0,0.5,2,100,h,3,9\n",
    "client,slots,host\nc0,1,h\n",
    "object,offset,bytes\n17,0,5\n007,9,18446744073709551615\n\"a,b\",3,0\n",
    "app,server,read,shuffle\na0,s0,1,0.5\n\"a,1\",s1,18446744073.709551615,0\n",
    "request,client,server,start,blocks\n0,c0,s0,0,1\n1,c1,s3,0,2\n",
    "request,client,server,start,blocks\n0,c0,s0,0.5,0.25\n0,c0,s0,1.000000001,0.75\n1,c1,s3,18446744073709551615.9,2\n",
    r#"{"format":1,"policy":"optimal","order":"colour","seed":0,"block":1,"requests":2,"clients":2,"servers":3,"max_concurrent":4,"whole":true,"length":2.5,"max_load":2,"lower_bound":2.25,"optimal":false,"gap":0.25,"bottleneck":{"kind":"client","client":"c1","blocks":2,"waits_for":"s3"},"batch_fingerprint":"0","plan_fingerprint":"0"}"#,
    "/a b 9 bytes, replicated: replication=2, 2 block(s):  OK\n0. BP-1:blk_1_1 len=5 Live_repl=2  [DatanodeInfoWithStorage[h:1,D,DISK](LIVE), /r/g:1]\n1. blk_2_1 len=4 MISSING!\nStatus: HEALTHY\n",
    r#"<metalink><file name="a&amp;b"><size>9</size><pieces length="4"><hash/></pieces><url priority="1">http://h:80/</url></file></metalink>"#,
    "b,a%20b,5,e,true\nb,c,7,,false\n",
    r#"[{"Path":"a","Size":5,"IsDir":false,"Hashes":{"md5":"x"}},{"Path":"b","Size":-1}]"#,
    "bytes,replicas,chunk,client\n1kB,a|b,x,c\n",
    "key,bytes,replicas,sha256\na,1kB,http://a/x|file:///y,\nb,0,z,0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
];

/// Feeds every reader.
/// Bytes of a block: neither one nor a power of two.
const THREE: NonZeroU64 = NonZeroU64::new(3).unwrap();

fn read_all(bytes: &[u8]) {
    let batch = formats::read_batch_csv(Cursor::new(SEEDS[0]), &Reading::of("seed"), Declared::default())
        .expect("valid");
    let _ = formats::read_batch_csv(
        Cursor::new(bytes),
        &Reading { block: THREE, ..Reading::of("x") },
        Declared::default(),
    );
    let _ = formats::read_batch_json(
        Cursor::new(bytes),
        &Reading { block: THREE, ..Reading::of("x") },
        Declared::default(),
    );
    let _ = formats::read_servers(Cursor::new(bytes), &Reading { block: THREE, ..Reading::of("x") });
    let _ = formats::read_clients(Cursor::new(bytes), &Reading::of("x"));
    let _ = formats::read_plan(Cursor::new(bytes), &Reading::of("x"), &batch);
    let _ = formats::read_summary(Cursor::new(bytes), "x");
    let _ = formats::read_queue(Cursor::new(bytes), &Reading::of("x"));
    let _ = formats::read_manifest_csv(Cursor::new(bytes), &Reading::of("x"));
    let _ = formats::read_writes(Cursor::new(bytes), &Reading::of("x"), 3);
    import_all(bytes);
}

/// Feeds the readers of `import`, and deals what they find.
fn import_all(bytes: &[u8]) {
    let mut gathered = Gathered::new(Some(3));
    let _ = import::read_hdfs_fsck(Cursor::new(bytes), "x", true, &mut gathered);
    let _ = import::read_metalink(Cursor::new(bytes), "x", true, &mut gathered);
    let _ = import::read_table(Cursor::new(bytes), "x", &TableColumns::default(), &mut gathered);
    let _ = gathered.dealt_to(Clients::OnePerHost, Deal::Contiguous);
    let mut merge = Merge::new();
    let columns = InventoryColumns::parse("Bucket,Key,Size,ETag,IsLatest").expect("valid");
    let _ = import::read_s3_inventory(Cursor::new(bytes), "x", &columns, None, false, &mut merge);
    let _ = import::read_rclone_lsjson(Cursor::new(bytes), "x", "r", &mut merge);
    let _ = import::read_manifest(Cursor::new(bytes), "x");
    let _ = merge.gather(None).map(|gathered| gathered.dealt_to(Clients::Workers(2), Deal::RoundRobin));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damaged_files(
        seed in 0..SEEDS.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..8),
    ) {
        let mut bytes = SEEDS[seed].as_bytes().to_vec();
        for (place, byte, how) in cuts {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => { bytes.remove(place); }
                _ => bytes.truncate(place),
            }
        }
        read_all(&bytes);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }
}

/// A record or a string without an end is refused before it fills the memory.
#[test]
fn endless_records() {
    use std::io::{BufReader, Read};
    let endless = |start: &'static str| {
        let forever = Cursor::new(start).chain(std::io::repeat(b'x')).take(200 << 20);
        BufReader::new(forever)
    };
    let csv = |start| formats::read_batch_csv(endless(start), &Reading::of("x"), Declared::default());
    assert!(csv("client,replicas\n\"").unwrap_err().message.contains("64 MiB"));
    assert!(csv("client,replicas\nc,").unwrap_err().message.contains("64 MiB"));
    let json = formats::read_batch_json(
        endless("{\"requests\":[{\"client\":\""),
        &Reading::of("x"),
        Declared::default(),
    );
    assert!(json.unwrap_err().message.contains("1 MiB"));
    let many = |start: &'static str| {
        let forever = Cursor::new(start).chain(Cursor::new("\"s\",".repeat(8 << 20)));
        formats::read_batch_json(BufReader::new(forever), &Reading::of("x"), Declared::default())
            .unwrap_err()
            .message
    };
    assert!(many("{\"requests\":[{\"client\":\"c\",\"replicas\":[").contains("64 MiB"));
    assert!(many("{\"servers\":[").contains("server `s` appears twice"));
}
