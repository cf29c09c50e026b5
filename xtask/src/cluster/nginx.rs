//! nginx: a mirror as the web has them, with listings for people on port 80 and in JSON on port 8080.

use super::lifecycle::{Server, write};
use crate::run::{Result, require_program};

pub(crate) fn install() -> Result<()> {
    require_program("nginx", &["-v"], &["nginx-light"])
}

/// Writes the configuration. Returns the command that serves in the foreground.
pub(crate) fn prepare(server: &Server) -> Result<Vec<String>> {
    let file = server.home.join("nginx.conf");
    write(&file, &configuration(server))?;
    Ok(["nginx", "-c", &file.display().to_string(), "-e", &server.log().display().to_string()]
        .map(str::to_owned)
        .to_vec())
}

fn configuration(server: &Server) -> String {
    let (home, folder, log) = (server.home.display(), server.folder.display(), server.log());
    let log = log.display();
    // As root, so that it reads whatever the tests put there. The temporary folders are for bodies of requests.
    format!(
        "daemon off;
user root;
worker_processes 1;
pid '{home}/nginx.pid';
error_log '{log}';
events {{ worker_connections 4096; }}
http {{
    access_log '{home}/access.log';
    client_body_temp_path '{home}/body';
    proxy_temp_path '{home}/proxy';
    fastcgi_temp_path '{home}/fastcgi';
    uwsgi_temp_path '{home}/uwsgi';
    scgi_temp_path '{home}/scgi';
    default_type application/octet-stream;
    sendfile on;
    keepalive_requests 1000000;
    root '{folder}';
    autoindex on;
    autoindex_exact_size on;
    server {{ listen 80; }}
    server {{ listen 8080; autoindex_format json; }}
}}
"
    )
}
