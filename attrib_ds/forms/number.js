function (number, purpose) {
  if (purpose === "sort" || purpose === "type") { return number; }
  if (typeof number !== "number" || Number.isNaN(number)) { return ""; }
  return number.toLocaleString("en", { minimumFractionDigits: DIGITS, maximumFractionDigits: DIGITS });
}
