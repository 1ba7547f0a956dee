"""Labels and help of arguments for people who do not write code; other arguments have their docstring's."""

from __future__ import annotations

from typing import Final

#: Labels of arguments whose name says too little.
LABELS: Final[dict[str, str]] = {
    "where": "Only visits",
    "nodes": "Only sources",
    "since": "From",
    "until": "To",
    "lookback": "Lookback window",
    "confidence": "Confidence level",
    "in_currency": "Currency",
    "project_id": "Project",
    "path": "File",
    "url": "Address of the service",
    "key": "Key file",
    "group_by": "Group by",
    "vendor_id": "Integration",
    "campaign_slug": "Short name",
    "bots": "Bots",
    "filtered": "Filtered traffic",
}
#: One line each.
HELP: Final[dict[str, str]] = {
    "event_type": "What counts as a conversion.",
    "statistic": "What is credited: the number of conversions, or an amount such as turnover.",
    "lookback": "How long before a conversion a visit can earn credit: 30D is thirty days.",
    "level": "What receives the credit: channels, campaigns, ads.",
    "since": "First day; everything by default.",
    "until": "Last day, included.",
    "where": "Conditions on visits; every visit by default.",
    "nodes": "Conditions on traffic sources; every source by default.",
    "models": "How credit is divided among the visits before a conversion. Several are compared.",
    "confidence": "For intervals: 0.95 means 95 %. Empty for none.",
    "limit": "Maximum number of rows; all by default.",
    "offset": "Number of rows to skip.",
    "columns": "What to show of each row; everything by default.",
    "group_by": "One line for each value of a property, such as the country.",
    "interval": "One row for each day, week, month …",
    "timezone": "Whose days: Europe/Paris, for instance. That of the project by default.",
    "bots": "Visits of search engines and other programs.",
    "filtered": "Visits that a traffic filter caught.",
    "in_currency": "Three letters, such as EUR, to convert all amounts; no conversion by default.",
    "project_id": "3 to 64 small letters, digits and hyphens.",
    "path": "Where the project is kept on this machine; the usual folder by default.",
    "url": "Starts with https://. Leave it empty for a project on this machine.",
    "key": "Path of the key file that the service gave you. Its content is never shown.",
    "vendor_id": "Where the campaigns run.",
    "campaign_slug": "As it appears in the addresses of landing pages; cannot be changed later.",
    "dry_run": "Only check the rows; send nothing.",
    "read_only": "Look without changing anything.",
}
