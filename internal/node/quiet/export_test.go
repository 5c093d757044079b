package quiet

// BreakTime is breakTime.
const BreakTime = breakTime
