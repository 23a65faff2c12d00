// Format a time like `durations.py`: 153 ms, 9,300 ms, 12.5 s, 10 min 0.102 s, 2 h 5 min.
const duration = (ms) => {
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 10000) return `${ms.toLocaleString("en")} ms`;
  const [hours, minutes, seconds] = [Math.floor(ms / 3600000), Math.floor((ms % 3600000) / 60000), Math.round(ms % 60000) / 1000];
  return [[hours, "h"], [minutes, "min"], [seconds, "s"]].filter(([many]) => many).map(([many, unit]) => `${many.toLocaleString("en")} ${unit}`).join(" ");
};
