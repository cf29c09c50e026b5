//! Who asks: the name that Hadoop's simple authentication takes on trust.

use std::os::unix::fs::MetadataExt;

/// `HADOOP_USER_NAME`, or the name of the user of this process.
pub(crate) fn name() -> Option<String> {
    let of_variable = |name: &str| std::env::var(name).ok().filter(|name| !name.trim().is_empty());
    let of_process = || {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        user_of(&std::fs::read_to_string("/etc/passwd").ok()?, user)
    };
    of_variable("HADOOP_USER_NAME").or_else(of_process).or_else(|| of_variable("USER"))
}

/// The name of a user in the list of all.
fn user_of(passwd: &str, user: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\n\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(user_of(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(user_of(passwd, 0).as_deref(), Some("root"));
        assert_eq!(user_of(passwd, 7), None);
    }
}
