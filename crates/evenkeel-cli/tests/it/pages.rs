//! Charts with long names, as a browser draws them.

use std::fs;
use std::path::Path;

use super::browser::open;
use super::{folder_with, printed};

/// Puts on the console what is cut off, lies over other text, or reads the same as another name.
const SCRIPT: &str = "<script>
    for (const svg of document.querySelectorAll('svg')) {
        const around = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll('text')].map(it => [it.firstChild.data, it.getBoundingClientRect()]);
        texts.forEach(([text, box], k) => {
            if (box.left < around.left - 1 || box.right > around.right + 1) console.error('cut off: ' + text);
            for (const [other, with_it] of texts.slice(0, k)) {
                const apart = box.left >= with_it.right || with_it.left >= box.right || box.top + 3 >= with_it.bottom || with_it.top + 3 >= box.bottom;
                if (!apart) console.error('over each other: ' + other + ' and ' + text);
            }
        });
        const names = [...svg.querySelectorAll('text:not(.value)')].map(it => it.firstChild.data);
        if (svg.querySelector('.value') && new Set(names).size < names.length) console.error('the same: ' + names);
    }
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) console.error('wider than the page');
    </script></body>";

fn assert_readable(page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains("<svg"), "{}", page.display());
    let looked = page.with_extension("looked.html");
    fs::write(&looked, text.replace("</body>", SCRIPT)).unwrap();
    let opened = open(&looked);
    assert!(opened.console.is_empty(), "{}: {:#?}", page.display(), opened.console);
}

#[test]
fn long_names_are_told_apart() {
    let hosts: Vec<String> = (0..12)
        .map(|i| format!("storage-{i:02}.rack{}.frankfurt.datacenter.example.org:9866", i % 3))
        .collect();
    let lines = |row: &dyn Fn(usize, &str) -> String| -> String {
        hosts.iter().enumerate().map(|(i, host)| row(i, host)).collect()
    };
    let servers = format!("server,backlog\n{}", lines(&|i, host| format!("{host},{}\n", i * 9)));
    let writes = format!("object,offset,bytes\n{}", lines(&|i, _| format!("{i},0,{}\n", 1 + i % 5)));
    let tasks = format!("task,bytes,replicas\n{}", lines(&|i, host| format!("t{i},{},{host}\n", 64 + i % 2)));
    let procs = format!("process,server\n{}", lines(&|i, host| format!("p{i},{host}\n")));
    let names = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(",");
    let share = |host: &String| format!(r#"{{"server":"{host}","rate":1000000,"bytes":3000000}}"#);
    let shares = hosts.iter().map(share).collect::<Vec<_>>().join(",");
    let end = |i: usize, host: &str| {
        format!(
            "{{\"format\":1,\"at\":{0}.5,\"event\":\"end\",\"transfer\":{0},\"server\":\"{host}\",\"bytes\":{1},\"seconds\":1.5,\"result\":\"done\"}}\n",
            1 + i,
            1_000_000 * i
        )
    };
    let trace = format!(
        "{{\"format\":1,\"at\":0,\"event\":\"begun\",\"objects\":1,\"bytes\":1,\"kept\":0,\"resumed\":0,\"missing\":1,\"policy\":\"optimal\",\"servers\":[{names}]}}\n\
         {{\"format\":1,\"at\":0.1,\"event\":\"planned\",\"bound\":3.0,\"servers\":[{shares}]}}\n{}",
        lines(&end)
    );
    let folder = folder_with(&[
        ("servers", &servers),
        ("writes", &writes),
        ("tasks", &tasks),
        ("procs", &procs),
        ("trace", &trace),
    ]);
    let commands = [
        "place writes --servers servers --html page.html",
        "assign tasks --processes procs --html page.html",
        "simulate tasks --processes procs --html page.html",
        "compare batch --html page.html",
        "replay trace --html page.html",
        "simulate batch --sweep servers.bandwidth=100MB/s,100.5MB/s,101MB/s,150MB/s,1000MB/s --policy first,optimal --html page.html",
    ];
    printed(&["generate", "--requests", "40", "--servers", "9", "--out", "batch"], folder.path());
    for command in commands {
        println!("{command}"); // shown when the test fails
        printed(&command.split(' ').collect::<Vec<_>>(), folder.path());
        assert_readable(&folder.path().join("page.html"));
    }
}
