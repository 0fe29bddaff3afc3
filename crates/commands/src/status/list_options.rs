//! Which connections a page or a program wants to see: the query of `/server-status`.

use super::clients::{ClientSample, STATES};
use super::sample::Sample;
use form_urlencoded::{Serializer, parse};

/// Which connections are listed, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// How many at most.
    limit: Option<usize>,
    /// Which of the lists of so many, the first being 0.
    pub(super) page: usize,
    /// By which figure, the largest first; without it the oldest are.
    sort: Option<(&'static str, Figure)>,
    /// Only those in this state, if there is one.
    pub(super) state: Option<&'static str>,
    /// Only those with this text, in small letters, in one of their words.
    pub(super) filter: String,
}

/// Takes what connections are sorted by.
type Figure = fn(&ClientSample) -> u64;

/// What connections may be sorted by.
const FIGURES: [(&str, Figure); 11] = [
    ("id", |it| it.id),
    ("ss", |it| it.idle_s),
    ("age_seconds", |it| it.age_s),
    ("memory_bytes", |it| it.memory_bytes as u64),
    ("received_bytes", |it| it.received_bytes),
    ("sent_bytes", |it| it.sent_bytes),
    ("bytes_per_second", |it| it.bytes_per_second),
    ("busy_ns", |it| it.busy_ns),
    ("busy_ns_per_second", |it| it.busy_ns_per_second),
    ("requests", |it| it.requests),
    ("requests_per_second", |it| it.requests_per_second),
];

/// Connections that match, as far as one page has them.
pub(super) struct Listed<'a> {
    /// How many matching ones come before them.
    pub(super) before: usize,
    /// How many match.
    pub(super) matching: usize,
    /// Those of the page.
    pub(super) clients: Vec<&'a ClientSample>,
}

impl ListOptions {
    /// Reads what a query says of them, such as `limit=10&page=2&sort=memory_bytes&state=blocked`.
    ///
    /// # Errors
    /// A value is wrong; one line. Names that are not known are left alone.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut options = ListOptions::default();
        for (name, value) in parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let limit = value.parse().map_err(|_| "limit: not a number".to_owned())?;
                    options.limit = Some(limit);
                }
                "page" => {
                    let page = value.parse::<usize>().ok().and_then(|page| page.checked_sub(1));
                    options.page = page.ok_or("page: a number from 1 on")?;
                }
                "sort" => {
                    let known = FIGURES.into_iter().find(|(name, _)| *name == value);
                    let names = || FIGURES.map(|(name, _)| name).join(", ");
                    options.sort = Some(known.ok_or_else(|| format!("sort: one of {}", names()))?);
                }
                // A form sends its menu even where nothing is chosen.
                "state" if value.is_empty() => options.state = None,
                "state" => {
                    let known = STATES.into_iter().find(|state| *state == value);
                    let wrong = || format!("state: one of {}", STATES.join(", "));
                    options.state = Some(known.ok_or_else(wrong)?);
                }
                "filter" => options.filter = value.to_lowercase(),
                _ => {}
            }
        }
        Ok(options)
    }

    /// Those of the page, of so many if no limit is given.
    pub(super) fn list<'a>(&self, sample: &'a Sample, most: usize) -> Listed<'a> {
        let all = sample.clients.iter().flatten();
        let mut clients: Vec<&ClientSample> = all.filter(|client| self.matches(client)).collect();
        if let Some((_, figure)) = self.sort {
            clients.sort_by_key(|client| std::cmp::Reverse(figure(client)));
        }
        let matching = clients.len();
        let limit = self.limit.unwrap_or(most);
        let before = self.page.saturating_mul(limit).min(matching);
        let clients = clients.into_iter().skip(before).take(limit).collect();
        Listed { before, matching, clients }
    }

    /// Whether only some of all connections are wanted.
    pub(super) fn is_filtered(&self) -> bool {
        self.state.is_some() || !self.filter.is_empty()
    }

    fn matches(&self, client: &ClientSample) -> bool {
        if self.state.is_some_and(|state| state != client.state) {
            return false;
        }
        let texts = [
            &client.address,
            &client.name,
            &client.user,
            &client.library,
            &client.command,
            &client.key,
        ];
        let [protocol, state] = [client.protocol, client.state];
        self.filter.is_empty()
            || texts
                .into_iter()
                .map(String::as_str)
                .chain([protocol, state])
                .any(|text| text.to_lowercase().contains(&self.filter))
    }

    /// Names of pages, of so many connections that match, with their queries; none where all
    /// connections are on one, and no query where a page is the present one or is not there.
    pub(super) fn pages(
        &self,
        matching: usize,
        most: usize,
    ) -> Vec<(&'static str, Option<String>)> {
        let last = matching.div_ceil(self.limit.unwrap_or(most).max(1)).saturating_sub(1);
        if last == 0 {
            return Vec::new();
        }
        let before = self.page.checked_sub(1).map(|page| page.min(last));
        let places = [
            ("First", Some(0)),
            ("Previous", before),
            ("Next", Some(self.page + 1).filter(|page| *page <= last)),
            ("Last", Some(last)),
        ];
        let named = places.map(|(name, page)| {
            (name, page.filter(|it| *it != self.page).map(|page| self.query(page)))
        });
        named.to_vec()
    }

    /// The query for another page of the same list.
    fn query(&self, page: usize) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("page", &(page + 1).to_string());
        if let Some((name, _)) = self.sort {
            query.append_pair("sort", name);
        }
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        if let Some(state) = self.state {
            query.append_pair("state", state);
        }
        if !self.filter.is_empty() {
            query.append_pair("filter", &self.filter);
        }
        query.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_can_be_short_and_sorted() {
        let options = ListOptions::parse("limit=3&sort=requests&other=1").unwrap();
        assert_eq!((options.limit, options.sort.map(|it| it.0)), (Some(3), Some("requests")));
        assert_eq!(ListOptions::parse(""), Ok(ListOptions::default()));
        assert_eq!(ListOptions::parse("filter=&state="), Ok(ListOptions::default()));
        for wrong in ["limit=x", "page=x", "page=0"] {
            assert!(ListOptions::parse(wrong).is_err(), "{wrong}");
        }
        assert!(ListOptions::parse("sort=name").unwrap_err().contains("memory_bytes"));
        assert!(ListOptions::parse("state=away").unwrap_err().contains("blocked"));
    }

    #[test]
    fn connections_are_chosen_by_state_and_by_text() {
        let client = |name: &str, key: &str, state| ClientSample {
            name: name.to_owned(),
            key: key.to_owned(),
            state,
            ..ClientSample::default()
        };
        let clients = [
            client("web", "Cart:1", "idle"),
            client("web", "", "blocked"),
            client("job", "", "idle"),
        ];
        let chosen = |query: &str| {
            let options = ListOptions::parse(query).unwrap();
            let chosen = clients.iter().map(|client| options.matches(client));
            chosen.collect::<Vec<_>>()
        };
        assert_eq!(chosen(""), [true, true, true]);
        assert_eq!(chosen("state=idle"), [true, false, true]);
        assert_eq!(chosen("filter=WEB"), [true, true, false]);
        assert_eq!(chosen("filter=cart%3A1"), [true, false, false]);
        assert_eq!(chosen("filter=web&state=blocked"), [false, true, false]);
        assert_eq!(chosen("filter=block"), [false, true, false]);
    }

    #[test]
    fn pages_lead_to_each_other() {
        let pages = |query: &str, all| {
            let pages = ListOptions::parse(query).unwrap().pages(all, 500);
            let shown = pages.into_iter().map(|(name, query)| match query {
                Some(query) => format!("{name} {query}"),
                None => name.to_owned(),
            });
            shown.collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(pages("", 500), "");
        assert_eq!(pages("", 501), "First | Previous | Next page=2 | Last page=2");
        let sorted = "First page=1&sort=id&limit=10 | Previous page=1&sort=id&limit=10 | \
                      Next page=3&sort=id&limit=10 | Last page=4&sort=id&limit=10";
        assert_eq!(pages("page=2&limit=10&sort=id", 31), sorted);
        assert_eq!(pages("page=4&limit=10", 31).matches("page=3&limit=10").count(), 1);
        assert_eq!(pages("page=9", 501), "First page=1 | Previous page=2 | Next | Last page=2");
        assert_eq!(
            pages("state=idle&filter=a+b", 501),
            "First | Previous | Next page=2&state=idle&filter=a+b | \
             Last page=2&state=idle&filter=a+b"
        );
        assert_eq!(
            pages("limit=0", 2),
            "First | Previous | Next page=2&limit=0 | Last page=2&limit=0"
        );
    }
}
