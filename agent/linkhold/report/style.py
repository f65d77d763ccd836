"""The look of a page. Every colour is a variable, once for light and once for dark."""

from __future__ import annotations

LIGHT = {
    "page": "#f4f6f8",
    "card": "#ffffff",
    "ink": "#161b22",
    "soft": "#56606b",
    "line": "#d5dbe1",
    "ground": "#f0f3f6",
    "link": "#0b57a4",
    "bad": "#c62a2f",
    "warn": "#945800",
    "held": "#5b4bb5",
    "note": "#6b7682",
    "good": "#1a7f43",
}
DARK = {
    "page": "#0f1318",
    "card": "#181e25",
    "ink": "#e8edf2",
    "soft": "#a3afbb",
    "line": "#333d48",
    "ground": "#1f2730",
    "link": "#7cb8ff",
    "bad": "#ff7b72",
    "warn": "#e3a63b",
    "held": "#b3a5ff",
    "note": "#8b98a5",
    "good": "#57c785",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


STYLE = (
    f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.2rem;margin:0 0 4px}
h3{font-size:1rem;margin:18px 0 4px;overflow-wrap:anywhere}
p{margin:4px 0 10px}
a{color:var(--link)}
.soft,caption,figcaption{color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px;margin:18px 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(168px,1fr));gap:12px;
margin:20px 0;padding:0;list-style:none}
.tiles li{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px}
.tiles b{display:block;font-size:1.3rem;line-height:1.4;white-space:nowrap;
font-variant-numeric:tabular-nums}
.tiles .bad b{color:var(--bad)}.tiles .held b{color:var(--held)}
.tiles .warn b{color:var(--warn)}.tiles .good b{color:var(--good)}
.tiles span{color:var(--soft);font-size:.87rem}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;margin:8px 0 4px;padding:0;list-style:none;
font-size:.87rem;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:7px}
.swatch{width:20px;height:16px}
.defs{position:absolute}
figure{margin:8px 0 0;overflow-x:auto}
.picture{display:block;width:100%;min-width:720px;height:auto}
.ground{fill:var(--ground)}
.tick,.row{stroke:var(--line);stroke-width:1}
.picture text{font-size:12px;fill:var(--soft)}
.picture .who{fill:var(--ink)}
.picture a .who{fill:var(--link)}
.bad{--own:var(--bad)}.warn{--own:var(--warn)}.note{--own:var(--note)}.held{--own:var(--held)}
.bar{fill:var(--own)}
.bar.held{fill:url(#hatch);stroke:var(--held);stroke-width:.6}
.bar.unsure{fill:none;stroke:var(--note);stroke-dasharray:2 2}
.hatch-ground{fill:var(--card)}
.hatch-line{stroke:var(--held);stroke-width:2}
.mark{fill:var(--card);stroke:var(--ink);stroke-width:1.2}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
caption{text-align:left;padding:4px 0 6px;font-size:.87rem}
th,td{text-align:left;padding:6px 16px 6px 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;vertical-align:bottom;overflow-wrap:normal}
th:last-child,td:last-child{padding-right:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.n{white-space:nowrap}
th.n{min-width:5.5em}
td.t{white-space:nowrap;font-variant-numeric:tabular-nums}
td.name{min-width:7em}td.cause{min-width:11em;width:42%}
.tag{display:inline-block;border-left:4px solid var(--own);padding-left:7px;white-space:nowrap}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:0 34px}
.quiet{columns:13em auto}.quiet,.rest{margin:8px 0;padding-left:18px;font-size:.9rem}
summary{cursor:pointer;color:var(--link)}
footer{color:var(--soft);font-size:.87rem}
@media (max-width:600px){main{padding:16px 10px}section{padding:14px 12px}
.columns{grid-template-columns:1fr}}
@media print{
:root{""" + _variables(LIGHT) + """color-scheme:light}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{background:#fff;font-size:11px}main{max-width:none;padding:0}
section{border:0;padding:0;margin:14px 0}
.tiles li{break-inside:avoid}figure,tr,h2,h3{break-inside:avoid}h2,h3{break-after:avoid}
figure,.scroll{overflow:visible}.picture{min-width:0}
"""
    # Chromium prints each use of a pattern as a picture: 137 MB for a thousand nodes.
    """.bar.held{fill:var(--held);fill-opacity:.45}
}
"""
)
