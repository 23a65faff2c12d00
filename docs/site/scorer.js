// The order of search results: what teaches comes before what is looked up.
var PLACES = { "notebooks/": 60, "reference/terms": 50, "labs/": 45, "scenarios/": 40, "guide/": 30, "reference/": 20 };
var Scorer = {
  score: function (result) {
    for (var place in PLACES) if (result[0].indexOf(place) === 0) return result[4] + PLACES[place];
    return result[4];
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
