//! Formats results as text and as CSV.

use super::stats::{Group, Named, Stats, TypeName};
use super::{Checked, Checking};
use num_format::{Locale, ToFormattedString as _};
use std::fmt::{self, Display, Write};

impl Display for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { header, fields, checksum, bytes, .. } = &self.found;
        if let Some(header) = header {
            let maker = if header.valkey { "VALKEY" } else { "REDIS" };
            writeln!(f, "[offset 0] Header {maker}, version {}", header.version)?;
        }
        for (offset, field) in fields {
            let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
            writeln!(f, "[offset {offset}] AUX FIELD {name} = '{value}'")?;
        }
        match &self.fault {
            None => {
                match checksum {
                    Some(_) => writeln!(f, "[offset {bytes}] Checksum OK")?,
                    None => writeln!(f, "[offset {bytes}] The file has no checksum")?,
                }
                writeln!(f, "[offset {bytes}] \\o/ RDB looks OK! \\o/")?;
            }
            Some(fault) => {
                writeln!(f, "--- RDB ERROR DETECTED ---")?;
                let said = fault.to_string();
                let what = said.split_once(": ").map_or(&said[..], |(_, what)| what);
                writeln!(f, "[offset {}] {what}", fault.offset())?;
                if let Some((database, key)) = &self.found.last_key {
                    let key = key.escape_ascii();
                    writeln!(f, "[additional info] Last key: '{key}' of database {database}")?;
                }
            }
        }
        self.found.fmt_counts(f)
    }
}

impl Checked {
    fn fmt_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[info] {} keys read", self.keys)?;
        writeln!(f, "[info] {} expires", self.expiring)?;
        writeln!(f, "[info] {} already expired", self.expired)?;
        for (database, keys) in &self.databases {
            writeln!(f, "[info] {keys} keys in database {database}")?;
        }
        for ((name, encoding), (keys, elements)) in &self.types {
            writeln!(f, "[info] {keys} keys of type {name} ({encoding}), {elements} elements")?;
        }
        if self.functions > 0 {
            writeln!(f, "[info] {} function libraries", self.functions)?;
        }
        Ok(())
    }
}

/// Writes a row of a table: its name, then the numbers of its group.
fn row(f: &mut fmt::Formatter<'_>, name: &str, group: &Group) -> fmt::Result {
    let Group { keys, elements, bytes, file_bytes, expiring } = *group;
    let mean = bytes.checked_div(keys).unwrap_or(0);
    let [keys, elements, expiring] = [keys, elements, expiring].map(grouped);
    let [bytes, file_bytes, mean] = [bytes, file_bytes, mean].map(sized);
    writeln!(
        f,
        "{keys:>13} {elements:>13} {bytes:>10} {file_bytes:>10} {mean:>10} {expiring:>13}  {name}"
    )
}

fn heading(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    writeln!(
        f,
        "\n{:>13} {:>13} {:>10} {:>10} {:>10} {:>13}  {name}",
        "keys", "elements", "bytes", "in file", "per key", "expiring"
    )
}

impl Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let maker = if self.valkey { "Valkey's" } else { "Redis'" };
        write!(f, "{maker} RDB version {}, {}", self.version, sized(self.file_bytes))?;
        for field in &self.fields {
            write!(f, ", {} {}", field.name.escape_ascii(), field.value.escape_ascii())?;
        }
        writeln!(f)?;
        if self.functions > 0 {
            writeln!(f, "{} function libraries", self.functions)?;
        }
        heading(f, "type (encoding)")?;
        for Named { name: TypeName { type_name, encoding }, group } in &self.types {
            row(f, &format!("{type_name} ({encoding})"), group)?;
        }
        row(f, "all", &self.all)?;
        heading(f, "database")?;
        for (number, group) in &self.databases {
            row(f, &number.to_string(), group)?;
        }
        heading(f, "expires")?;
        for Named { name, group } in &self.expiry {
            row(f, name.as_text(), group)?;
        }
        heading(f, "prefix")?;
        for Named { name, group } in &self.prefixes {
            row(f, name, group)?;
        }
        writeln!(f, "\n{:>10} {:>10} {:>13}  biggest keys", "bytes", "in file", "elements")?;
        for entry in &self.biggest {
            let [bytes, file_bytes] = [entry.bytes, entry.file_bytes].map(sized);
            let (elements, key) = (grouped(entry.elements), entry.key.escape_ascii());
            let (name, encoding, database) = (entry.type_name, entry.encoding, entry.database);
            writeln!(
                f,
                "{bytes:>10} {file_bytes:>10} {elements:>13}  {key} ({name}, {encoding}, database \
                 {database})"
            )?;
        }
        Ok(())
    }
}

impl Stats {
    /// Formats one table with a row for each group and each of the biggest keys; the first line has
    /// the names of its columns.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = "section,name,database,type,encoding,keys,elements,bytes,file_bytes,\
                       expiring,expire_at_ms\n"
            .to_owned();
        let mut group = |section: &str, name: &str, type_name: &str, encoding: &str, it: &Group| {
            let name = quoted(name);
            let Group { keys, elements, bytes, file_bytes, expiring } = it;
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{section},{name},,{type_name},{encoding},{keys},{elements},{bytes},{file_bytes},\
                 {expiring},"
            );
        };
        group("all", "", "", "", &self.all);
        for Named { name: TypeName { type_name, encoding }, group: it } in &self.types {
            group("type", type_name, type_name, encoding, it);
        }
        for (number, it) in &self.databases {
            group("database", &number.to_string(), "", "", it);
        }
        for Named { name, group: it } in &self.expiry {
            group("expiry", name.as_text(), "", "", it);
        }
        for Named { name, group: it } in &self.prefixes {
            group("prefix", name, "", "", it);
        }
        for it in &self.biggest {
            let key = quoted(&it.key.escape_ascii().to_string());
            let at_ms = it.expire_at_ms.map_or(String::new(), |at_ms| at_ms.to_string());
            let expiring = u64::from(it.expire_at_ms.is_some());
            let _ = writeln!(
                out,
                "biggest,{key},{},{},{},1,{},{},{},{expiring},{at_ms}",
                it.database, it.type_name, it.encoding, it.elements, it.bytes, it.file_bytes
            );
        }
        out
    }
}

/// Formats a field of CSV, in quotes if necessary.
fn quoted(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Formats 1234567 as `1,234,567`.
fn grouped(number: u64) -> String {
    number.to_formatted_string(&Locale::en)
}

/// Formats bytes in a suitable unit.
fn sized(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"KB");
    for next in units {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    format!("{amount:.1} {unit}")
}
