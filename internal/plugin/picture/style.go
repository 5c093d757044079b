package picture

// style is the style sheet of pictures.
const style = `svg.cpus { --page: #fff; --ink: #1b1f24; --dim: #57606a; --line: #8c959f; --core: #d0d7de; --management: #a8c7fa; --shared: #d8dee4; --free: #fff; --fault: #cf222e; }
svg.cpus .page { fill: var(--page); }
svg.cpus text { fill: var(--ink); font-size: 12px; }
svg.cpus .title { font-size: 16px; font-weight: 600; }
svg.cpus .label { font-size: 11px; fill: var(--dim); }
svg.cpus .id { font-size: 12px; text-anchor: middle; }
svg.cpus .mark { font-size: 10px; text-anchor: middle; }
svg.cpus .box { fill: none; stroke: var(--line); }
svg.cpus .d0 { stroke-width: 2; }
svg.cpus .d2, svg.cpus .d3 { stroke-dasharray: 3 2; }
svg.cpus .core { fill: var(--core); }
svg.cpus .management { fill: var(--management); }
svg.cpus .shared { fill: var(--shared); }
svg.cpus .free, svg.cpus .idle, svg.cpus .resting, svg.cpus .parked, svg.cpus .reserved { fill: var(--free); stroke: var(--line); }
svg.cpus .none, svg.cpus .offline { fill: none; stroke: var(--line); stroke-dasharray: 2 2; }
/* Owners: Okabe and Ito's colours, which also differ for most who do not see all of them, and others as far from them as could be found. */
svg.cpus .o1 { fill: #e69f00; }
svg.cpus .o2 { fill: #56b4e9; }
svg.cpus .o3 { fill: #009e73; }
svg.cpus .o4 { fill: #f0e442; }
svg.cpus .o5 { fill: #d55e00; }
svg.cpus .o6 { fill: #cc79a7; }
svg.cpus .o7 { fill: #8c510a; }
svg.cpus .o8 { fill: #7fcdbb; }
svg.cpus .o9 { fill: #b2df8a; }
svg.cpus .o10 { fill: #fb9a99; }
svg.cpus .o11 { fill: #6a3d9a; }
svg.cpus .o12 { fill: #01665e; }
svg.cpus .i1, svg.cpus .i2, svg.cpus .i3, svg.cpus .i4, svg.cpus .i5, svg.cpus .i6, svg.cpus .i8, svg.cpus .i9, svg.cpus .i10 { fill: #000; }
svg.cpus .i7, svg.cpus .i11, svg.cpus .i12 { fill: #fff; }
svg.cpus .hatch { stroke: var(--line); stroke-width: 2; }
svg.cpus .over { fill: url(#hatch); opacity: 0.5; }
svg.cpus .load { fill: var(--fault); }
svg.cpus .fault { fill: none; stroke: var(--fault); stroke-width: 3; }
svg.cpus .cpu:focus { outline: 3px solid #0969da; outline-offset: -1px; }
@media (prefers-color-scheme: dark) {
svg.cpus { --page: #0d1117; --ink: #e6edf3; --dim: #9198a1; --line: #6e7681; --core: #30363d; --management: #1f4b8f; --shared: #484f58; --free: #161b22; --fault: #ff7b72; }
}
`

// Style is the style sheet of pictures, for pages that hold bare ones.
func Style() string { return style }
