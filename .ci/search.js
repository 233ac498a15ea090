/* search.js - Chinese words in the search of the site, which site.py puts into it as lunr's language "zh". Chinese has no
 * blanks between words, so each pair of neighbouring characters is a term; all else is treated as in English. */
lunr.zh = function () {
  function terms(text) {
    var found = [];
    text.split(/([\u3400-\u9fff]+)/).forEach(function (part, index) {
      if (index % 2 === 0) { // not Chinese
        part = part.replace(/^\W+/, '').replace(/\W+$/, '');
        if (part) found.push(part);
        return;
      }
      if (part.length === 1) found.push(part);
      for (var i = 0; i + 1 < part.length; i++) found.push(part.substr(i, 2));
    });
    return found;
  }

  function split(token) {
    return terms(token.toString()).map(function (term) {
      return token.clone(function () { return term; });
    });
  }

  lunr.Pipeline.registerFunction(split, 'zh');
  this.pipeline.before(lunr.trimmer, split);
  this.pipeline.remove(lunr.trimmer); // it removes every character that is not ASCII
  this.searchPipeline.before(lunr.stemmer, split);
};
