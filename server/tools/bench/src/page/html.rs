//! The parts of a page that need no script: words, figures, tables, listings.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    figures::number,
    parts::{Chart, Page, Row, Table},
};

/// A table with more rows than this is folded.
const MANY: usize = 40;

/// A text in which nothing is taken for HTML, also between quotes.
pub(super) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

impl Page {
    /// What stands between the head and the scripts.
    pub(super) fn body(&self) -> String {
        let mut html = format!("<h1>{}</h1>\n", text(&self.title));
        if !self.verdict.is_empty() {
            html += &format!("<p class=\"verdict\">{}</p>\n", text(&self.verdict));
        }
        if !self.facts.is_empty() {
            html += "<dl class=\"facts\">\n";
            for (name, value) in &self.facts {
                let _ =
                    writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", text(name), text(value));
            }
            html += "</dl>\n";
        }
        for warning in &self.warnings {
            let _ = writeln!(html, "<p class=\"warning\">{}</p>", text(warning));
        }
        if self.shown_charts().next().is_some() {
            html += "<noscript><style>.chart { display: none }</style>\
                     <p>The charts need JavaScript. The tables do not.</p></noscript>\n";
        }
        self.charts.iter().for_each(|it| it.write(&mut html));
        self.tables.iter().for_each(|it| it.write(&mut html));
        self.details.iter().for_each(|it| it.write(&mut html));
        for listing in &self.listings {
            let (title, listed) = (text(&listing.title), text(&listing.text));
            let _ = writeln!(html, "<h2>{title}</h2>\n<pre>{listed}</pre>");
        }
        if !self.notes.is_empty() {
            html += "<h2>What was measured, and how</h2>\n<ul>\n";
            self.notes.iter().for_each(|it| html += &format!("<li>{}</li>\n", text(it)));
            html += "</ul>\n";
        }
        html
    }
}

impl Chart {
    /// Its heading, and the place where the script draws it.
    fn write(&self, html: &mut String) {
        if !self.x.is_empty() {
            let title = text(&self.title);
            let _ = writeln!(
                html,
                "<section class=\"chart\"><h2>{title}</h2><div class=\"plot\" role=\"img\" aria-label=\"{title}\"></div>\
                 <div class=\"pointed\"></div></section>"
            );
        }
    }
}

impl Table {
    fn write(&self, html: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let title = text(&self.title);
        let count = self.rows.len();
        let is_long = count > MANY;
        *html += &match is_long {
            true => {
                format!("<details><summary><h2>{title} ({})</h2></summary>\n", number(count as f64))
            }
            false => format!("<h2>{title}</h2>\n"),
        };
        *html += "<table><thead><tr>";
        let columns: Vec<Column> =
            (0..self.columns.len()).filter_map(|it| self.column(it)).collect();
        for Column { name, class, .. } in &columns {
            let _ = write!(html, "<th scope=\"col\"{class}>{name}</th>");
        }
        *html += "</tr></thead>\n<tbody>\n";
        self.rows.iter().for_each(|it| it.write(&columns, html));
        *html += "</tbody></table>\n";
        if is_long {
            *html += "</details>\n";
        }
    }

    /// A column in which some row has something.
    fn column(&self, place: usize) -> Option<Column> {
        let cells = || self.rows.iter().filter_map(|it| it.cells.get(place));
        let is_text = cells().any(Value::is_string);
        cells().any(|it| !it.is_null()).then(|| Column {
            place,
            name: self.columns.get(place).map_or_else(String::new, |it| text(it)),
            class: if is_text { " class=\"text\"" } else { "" },
        })
    }
}

/// A column that is shown.
struct Column {
    place: usize,
    /// As HTML.
    name: String,
    /// The attribute of its cells.
    class: &'static str,
}

impl Row {
    fn write(&self, columns: &[Column], html: &mut String) {
        *html += if self.mark.is_some() { "<tr class=\"best\">" } else { "<tr>" };
        let cell = |place: usize| self.cells.get(place).unwrap_or(&Value::Null);
        let marked = columns.iter().position(|it| cell(it.place).is_string()).unwrap_or_default();
        for (index, Column { place, name, class }) in columns.iter().enumerate() {
            let (value, mut shown) = match cell(*place) {
                Value::Number(it) => {
                    let value = it.as_f64().unwrap_or_default();
                    (format!(" data-value=\"{value}\""), number(value))
                }
                Value::String(it) => (String::new(), text(it)),
                Value::Null => (String::new(), "–".to_owned()),
                other => (String::new(), text(&other.to_string())),
            };
            if let Some(mark) = self.mark.filter(|_| index == marked) {
                shown += &format!(" <span class=\"mark\">{}</span>", text(mark));
            }
            let _ = write!(html, "<td{class} data-name=\"{name}\"{value}><div>{shown}</div></td>");
        }
        *html += "</tr>\n";
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(rows: usize) -> Table {
        let row = |nth: usize| Row {
            cells: vec![json!(format!("s{nth}")), json!(1234.5 * nth as f64), json!(null)],
            mark: (nth == 2).then_some("recommended"),
        };
        Table {
            title: "Settings".to_owned(),
            columns: ["setting", "requests/min", "cost/h"].map(str::to_owned).into(),
            rows: (1..=rows).map(row).collect(),
        }
    }

    #[test]
    fn a_table_is_html_with_separators_its_best_row_marked_and_no_empty_column() {
        let page = Page {
            verdict: "Take s2.".to_owned(),
            facts: vec![("Latency".to_owned(), "5 ms".to_owned())],
            tables: vec![table(3), Table::default()],
            ..Page::default()
        };
        let html = page.body();
        let place = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}: {html}"));
        assert!(
            place("<p class=\"verdict\">Take s2.</p>") < place("<dt>Latency</dt><dd>5 ms</dd>")
        );
        place("<th scope=\"col\">requests/min</th></tr>");
        place(
            "<tr class=\"best\"><td class=\"text\" data-name=\"setting\"><div>s2 \
             <span class=\"mark\">recommended</span></div></td>",
        );
        place("<td data-name=\"requests/min\" data-value=\"2469\"><div>2,469</div></td></tr>");
        assert!(!html.contains("cost/h"), "{html}");
        assert_eq!(html.matches("<table>").count(), 1, "{html}");
    }

    #[test]
    fn a_table_of_many_rows_is_folded() {
        let mut html = String::new();
        table(MANY).write(&mut html);
        assert!(!html.contains("<details>"), "{html}");
        table(MANY + 1).write(&mut html);
        assert!(html.contains("<details><summary><h2>Settings (41)</h2></summary>"), "{html}");
    }
}
