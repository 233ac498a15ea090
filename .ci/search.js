/* search.js - Chinese words in the search of the site. site.py puts it in the place of lunr's language "zh", which needs a
 * dictionary. Chinese has no blanks between words, so each pair of neighbouring characters is a term; all else is treated
 * as in English. */
(function () {
  function pairs(run) {
    var found = [];
    for (var i = 0; i + 1 < run.length; i++) found.push(run.substr(i, 2));
    return found;
  }

  function split(token) {
    return token.toString().split(/([\u3400-\u9fff]{2,})/).map(function (part, index) {
      return index % 2 ? pairs(part) : part; // every second part is Chinese
    }).flat().filter(Boolean).map(function (term) {
      return token.clone(function () { return term; });
    });
  }

  /* The theme looks for Chinese words of a query in the index (`in`) and drops the last character of a query. It finds
   * none here, and so passes the query on as a whole. */
  var build = lunr.Builder.prototype.build;
  lunr.Builder.prototype.build = function () {
    var index = build.call(this);
    index.invertedIndex = new Proxy(index.invertedIndex, { has: function () { return false; } });
    return index;
  };

  var parser = lunr.QueryParser;
  lunr.QueryParser = function (text, query) {
    parser.call(this, text.replace(/[\u3400-\u9fff]{2,}/g, function (run) { return pairs(run).join(' '); }), query);
  };
  Object.assign(lunr.QueryParser, parser);
  lunr.QueryParser.prototype = parser.prototype;

  /* lunr takes two nodes for the same if only the digits of their labels and numbers are divided differently. Then it finds
   * terms that do not exist, such as bfloat3. */
  lunr.TokenSet.prototype.toString = function () {
    var edges = this.edges;
    return this.final + Object.keys(edges).sort().map(function (label) { return label + edges[label].id; }).join(' ');
  };

  lunr.zh = function () {
    this.pipeline.before(lunr.stopWordFilter, split);
  };
  lunr.zh.trimmer = lunr.trimmer; // the theme removes these two
  lunr.zh.stemmer = lunr.stemmer;
  lunr.Pipeline.registerFunction(split, 'zh');
})();
